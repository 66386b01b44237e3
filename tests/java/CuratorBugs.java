import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/** Reports about Curator's persistent nodes, groups, counters and barriers. See {@link Trial}. */
public final class CuratorBugs extends Trial {
    private CuratorBugs(String[] args) {
        super(args);
    }

    public static void main(String[] args) throws Exception {
        CuratorBugs bugs = new CuratorBugs(args);
        bugs.report("CURATOR-53", bugs::nodeWithoutServerAtStart);
        bugs.report("CURATOR-97", bugs::nodeAfterOutages);
        bugs.report("CURATOR-154", bugs::dataOnTheNextSession);
        bugs.report("CURATOR-258", bugs::watchAfterAChangeOfData);
        bugs.report("CURATOR-297", bugs::closeRightAfterStart);
        bugs.report("node of another process", bugs::nodeOfAnotherProcess);
        bugs.report("own id in a group", bugs::ownIdWithoutNode);
        bugs.report("lost reply of an addition", bugs::lostReply);
        bugs.report("CURATOR-654", bugs::watchOfAWaitThatTimedOut);
        bugs.report("more members than a barrier has", bugs::overSubscribed);
        bugs.report("CURATOR-318", bugs::memberThatTimedOut);
        bugs.report("CURATOR-233, 536", bugs::leaveThatTimedOut);
        bugs.report("GH-1290", bugs::reconnectInABarrier);
        bugs.report("barrier used again", bugs::barrierUsedAgain);
        System.exit(0);
    }

    /** The servers are down when the node is started. */
    private String nodeWithoutServerAtStart() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server)) {
            proxy.isDown.set(true);
            try (CuratorFramework client = client(proxy.address())) {
                PersistentNode node = node(client, "/53", "a");
                Thread.sleep(6_000);
                proxy.isDown.set(false);
                return exists("/53", 20_000) ? "the node is created" : "the node is never created";
            }
        }
    }

    private String nodeAfterOutages() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                CuratorFramework operator = client(server)) {
            PersistentNode node = node(client, "/97", "a");
            exists("/97", 5_000);
            for (int round = 0; round < 3; round++) {
                proxy.isDown.set(true);
                proxy.cut();
                operator.delete().quietly().forPath(root + "/97");
                Thread.sleep(500);
                proxy.isDown.set(false);
                if (!exists("/97", 15_000)) {
                    return "the node is missing after outage " + round;
                }
            }
            return "the node is created again";
        }
    }

    private String dataOnTheNextSession() throws Exception {
        try (CuratorFramework client = client(server)) {
            PersistentNode node = node(client, "/154", "old");
            node.waitForInitialCreate(5, TimeUnit.SECONDS);
            node.setData(bytes("new"));
            Thread.sleep(500);
            expire(client);
            Thread.sleep(8_000);
            String data = data("/154");
            return "new".equals(data) ? "the new data is kept" : "the next session writes " + data;
        }
    }

    private String watchAfterAChangeOfData() throws Exception {
        try (CuratorFramework client = client(server);
                CuratorFramework operator = client(server)) {
            PersistentNode node = node(client, "/258", "a");
            node.waitForInitialCreate(5, TimeUnit.SECONDS);
            node.setData(bytes("b"));
            operator.setData().forPath(root + "/258", bytes("c"));
            Thread.sleep(500);
            operator.delete().forPath(root + "/258");
            Thread.sleep(100);
            return exists("/258", 5_000) ? "the node is created again" : "the node stays deleted";
        }
    }

    private String closeRightAfterStart() throws Exception {
        int left = 0;
        for (int round = 0; round < 50; round++) {
            try (CuratorFramework client = client(server)) {
                client.blockUntilConnected();
                PersistentNode node = node(client, "/297-" + round, "a");
                Thread.sleep(round % 5);
                node.close();
                Thread.sleep(50);
                left += isThere("/297-" + round) ? 1 : 0;
            }
        }
        return left + " of 50 nodes are left after close";
    }

    private String nodeOfAnotherProcess() throws Exception {
        try (CuratorFramework one = client(server);
                CuratorFramework other = client(server)) {
            PersistentNode first = node(one, "/other", "first");
            first.waitForInitialCreate(5, TimeUnit.SECONDS);
            PersistentNode second = node(other, "/other", "second");
            second.waitForInitialCreate(5, TimeUnit.SECONDS);
            Thread.sleep(500);
            return "the data of the first process is " + data("/other") + " after the second starts";
        }
    }

    private String ownIdWithoutNode() throws Exception {
        try (CuratorFramework client = client(server)) {
            GroupMember member = new GroupMember(client, root + "/group", "me", bytes("a"));
            boolean isListed = member.getCurrentMembers().containsKey("me");
            return isListed ? "the own id is listed before its node exists" : "not listed";
        }
    }

    private String lostReply() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address())) {
            DistributedAtomicLong counter =
                    new DistributedAtomicLong(client, root + "/counter", new RetryNTimes(5, 100));
            counter.forceSet(0L);
            for (int round = 0; round < 10; round++) {
                proxy.dropAndCutAfter(round);
                try {
                    counter.add(1L);
                } catch (Exception lost) {
                    // The caller knows that the outcome is unknown.
                    counter.get();
                }
                proxy.dropAndCutAfter(Integer.MAX_VALUE);
            }
            return "10 additions of 1 lead to " + counter.get().postValue();
        }
    }

    private String watchOfAWaitThatTimedOut() throws Exception {
        try (CuratorFramework client = client(server)) {
            DistributedBarrier barrier = new DistributedBarrier(client, root + "/654");
            barrier.setBarrier();
            for (int round = 0; round < 5; round++) {
                barrier.waitOnBarrier(50, TimeUnit.MILLISECONDS);
            }
            return "watches of the server after 5 waits: " + fourLetters(server, "wchs");
        }
    }

    private String overSubscribed() throws Exception {
        try (CuratorFramework client = client(server)) {
            AtomicInteger entered = new AtomicInteger();
            List<CompletableFuture<Void>> all = new CopyOnWriteArrayList<>();
            for (int member = 0; member < 5; member++) {
                all.add(CompletableFuture.runAsync(() -> {
                    try {
                        DistributedDoubleBarrier barrier =
                                new DistributedDoubleBarrier(client, root + "/over", 2);
                        if (barrier.enter(3, TimeUnit.SECONDS)) {
                            entered.incrementAndGet();
                        }
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                }, command -> new Thread(command).start()));
            }
            for (CompletableFuture<Void> member : all) {
                member.join();
            }
            return entered + " of 5 members enter a barrier of 2";
        }
    }

    private String memberThatTimedOut() throws Exception {
        try (CuratorFramework one = client(server);
                CuratorFramework other = client(server)) {
            boolean first =
                    new DistributedDoubleBarrier(one, root + "/318", 2).enter(500, TimeUnit.MILLISECONDS);
            boolean second =
                    new DistributedDoubleBarrier(other, root + "/318", 2).enter(2, TimeUnit.SECONDS);
            return "the first member times out: " + !first + ", and the second alone enters: " + second;
        }
    }

    private String leaveThatTimedOut() throws Exception {
        try (CuratorFramework one = client(server);
                CuratorFramework other = client(server)) {
            DistributedDoubleBarrier first = new DistributedDoubleBarrier(one, root + "/233", 2);
            DistributedDoubleBarrier second = new DistributedDoubleBarrier(other, root + "/233", 2);
            CompletableFuture<Boolean> entered = async(() -> first.enter(5, TimeUnit.SECONDS));
            second.enter(5, TimeUnit.SECONDS);
            entered.join();
            long begun = System.nanoTime();
            CompletableFuture<Boolean> left = async(() -> first.leave(1, TimeUnit.SECONDS));
            String result;
            try {
                result = "returns " + left.get(10, TimeUnit.SECONDS);
            } catch (java.util.concurrent.TimeoutException late) {
                result = "has not returned";
            }
            long ms = (System.nanoTime() - begun) / 1_000_000;
            int members = children("/233");
            return "a leave of 1 s " + result + " after " + ms + " ms, " + members + " nodes left";
        }
    }

    private String reconnectInABarrier() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address())) {
            client.blockUntilConnected();
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, root + "/1290", 2);
            CompletableFuture<Boolean> entered = async(() -> barrier.enter(6, TimeUnit.SECONDS));
            Thread.sleep(1_000);
            proxy.cut();
            try {
                return "a member alone enters after a reconnect: " + entered.join();
            } catch (Exception error) {
                return "enter fails after a reconnect: " + error.getCause();
            }
        }
    }

    private String barrierUsedAgain() throws Exception {
        try (CuratorFramework one = client(server);
                CuratorFramework other = client(server)) {
            int rounds = 0;
            for (; rounds < 20; rounds++) {
                DistributedDoubleBarrier first = new DistributedDoubleBarrier(one, root + "/again", 2);
                DistributedDoubleBarrier second = new DistributedDoubleBarrier(other, root + "/again", 2);
                CompletableFuture<Boolean> done = async(() -> {
                    boolean entered = first.enter(3, TimeUnit.SECONDS);
                    return first.leave(3, TimeUnit.SECONDS) && entered;
                });
                boolean entered = second.enter(3, TimeUnit.SECONDS);
                boolean left = second.leave(3, TimeUnit.SECONDS);
                if (!entered || !left || !done.join()) {
                    break;
                }
            }
            return rounds + " of 20 rounds succeed";
        }
    }

    private PersistentNode node(CuratorFramework client, String path, String data) {
        PersistentNode node =
                new PersistentNode(client, CreateMode.EPHEMERAL, false, root + path, bytes(data));
        node.start();
        return node;
    }
}
