import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.zookeeper.data.Stat;

/** Reports about Curator's {@code LeaderLatch} and {@code LeaderSelector}. See {@link Trial}. */
public final class CuratorElectionBugs extends Trial {
    private CuratorElectionBugs(String[] args) {
        super(args);
    }

    public static void main(String[] args) throws Exception {
        CuratorElectionBugs bugs = new CuratorElectionBugs(args);
        bugs.report("CURATOR-444", bugs::stoppedServers);
        bugs.report("CURATOR-504, 644", bugs::reconnects);
        bugs.report("CURATOR-620", bugs::quickReconnects);
        bugs.report("CURATOR-645", bugs::resignation);
        bugs.report("CURATOR-653", bugs::electionOfTheEnsemble);
        bugs.report("CURATOR-696", bugs::nodeOfThePreviousSession);
        bugs.report("CURATOR-498", bugs::lateCreation);
        bugs.report("waiting candidate", bugs::waitingCandidateOfThePreviousSession);
        bugs.report("CURATOR-62", bugs::interruptedSelector);
        bugs.report("CURATOR-188", bugs::failedServer);
        System.exit(0);
    }

    /** Two of three servers are stopped, so that none of them serves clients. */
    private String stoppedServers() throws Exception {
        StringBuilder result = new StringBuilder();
        for (int seconds : new int[] {3, 10, 25}) {
            try (Ensemble ensemble = new Ensemble();
                    Candidates candidates = new Candidates(ensemble.address(), "/444")) {
                int leader = ensemble.leader();
                for (int number = 0; number < Ensemble.SIZE; number++) {
                    candidates.add(ensemble.address(number));
                }
                candidates.waitForNodes(Ensemble.SIZE);
                for (int number = 0; number < Ensemble.SIZE; number++) {
                    if (number != leader) {
                        ensemble.signal(number, "STOP");
                    }
                }
                Thread.sleep(seconds * 1_000);
                for (int number = 0; number < Ensemble.SIZE; number++) {
                    ensemble.signal(number, "CONT");
                }
                Thread.sleep(3 * SESSION_TIMEOUT_MS);
                result.append("after " + seconds + " s: " + candidates.state() + "; ");
            }
        }
        return result.toString();
    }

    private String reconnects() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                Candidates candidates = new Candidates(server, "/504")) {
            for (int number = 0; number < 4; number++) {
                candidates.add(proxy.address());
            }
            candidates.waitForNodes(4);
            int before = created("/504");
            for (int round = 0; round < 20; round++) {
                proxy.cut();
                Thread.sleep(new int[] {5, 35, 100, 500, 2_000}[round % 5]);
            }
            Thread.sleep(SESSION_TIMEOUT_MS);
            return created("/504") - before + " nodes are created at 20 reconnects of 4 latches, "
                    + candidates.state();
        }
    }

    /** A reply to the second candidate is lost, and then it reconnects twice. */
    private String quickReconnects() throws Exception {
        int[] pauses = {0, 5, 30, 150};
        int settled = count(32, round -> {
            try (FaultyProxy proxy = new FaultyProxy(server);
                    Candidates candidates = new Candidates(server, "/620-" + round)) {
                candidates.add(proxy.address());
                candidates.leader(10_000);
                try (FaultyProxy lossy = new FaultyProxy(server)) {
                    CuratorFramework client = client(lossy.address());
                    client.blockUntilConnected();
                    lossy.dropAndCutAfter(round / pauses.length);
                    candidates.add(client);
                    for (int cut = 0; cut < 2; cut++) {
                        proxy.cut();
                        lossy.cut();
                        Thread.sleep(pauses[round % pauses.length]);
                    }
                    return candidates.settle() && candidates.nodes() <= 2;
                }
            }
        });
        return "in " + settled + " of 32 rounds, the leader has a node, and no other nodes are left";
    }

    private String resignation() throws Exception {
        StringBuilder result = new StringBuilder();
        for (boolean isCut : new boolean[] {false, true}) {
            try (FaultyProxy proxy = new FaultyProxy(server);
                    Candidates candidates = new Candidates(server, "/645-" + isCut)) {
                for (int number = 1; number <= 3; number++) {
                    candidates.add(proxy.address());
                    candidates.waitForNodes(number);
                }
                int before = created("/645-" + isCut);
                candidates.resign();
                if (isCut) {
                    proxy.cut();
                }
                Thread.sleep(2 * SESSION_TIMEOUT_MS);
                result.append(isCut ? "; the leader resigns and all reconnect: " : "the leader resigns: ")
                        .append(created("/645-" + isCut) - before)
                        .append(" nodes are created, " + candidates.state());
            }
        }
        return result.toString();
    }

    private String electionOfTheEnsemble() throws Exception {
        try (Ensemble ensemble = new Ensemble();
                Candidates candidates = new Candidates(ensemble.address(), "/653")) {
            for (int number = 0; number < Ensemble.SIZE; number++) {
                candidates.add(ensemble.address());
            }
            candidates.waitForNodes(Ensemble.SIZE);
            for (int round = 0; round < 6; round++) {
                int leader = ensemble.leader();
                ensemble.kill(leader);
                ensemble.leader();
                Thread.sleep(round % 2 == 0 ? 500 : 2 * SESSION_TIMEOUT_MS);
                ensemble.start(leader);
                Thread.sleep(1_000);
                candidates.leader(4 * SESSION_TIMEOUT_MS);
            }
            Thread.sleep(2 * SESSION_TIMEOUT_MS);
            return "after 6 elections: " + candidates.state();
        }
    }

    /** The client gives its session up, and the server keeps its node for a session timeout. */
    private String nodeOfThePreviousSession() throws Exception {
        int left = 0;
        int own = 0;
        try (Candidates candidates = new Candidates(server, "/696")) {
            LeaderLatch latch = candidates.add(server);
            for (int round = 0; round < 5; round++) {
                candidates.leader(10_000);
                String old = latch.getOurPath();
                expire(candidates.clients.get(0));
                within(5_000, () -> !latch.hasLeadership());
                boolean isThere = candidates.operator.checkExists().forPath(old) != null;
                candidates.leader(10_000);
                left += isThere ? 1 : 0;
                own += isThere && candidates.hasNode(0) ? 1 : 0;
            }
            return "the old node is left " + left + " times, and then it leads with a new node " + own
                    + " times, " + candidates.state();
        }
    }

    /** The reply of a creation is lost, and the session may end. Then the leader resigns. */
    private String lateCreation() throws Exception {
        int settled = count(20, round -> {
            try (Candidates candidates = new Candidates(server, "/498-" + round);
                    FaultyProxy lossy = new FaultyProxy(server)) {
                candidates.add(server);
                candidates.leader(10_000);
                CuratorFramework client = client(lossy.address());
                client.blockUntilConnected();
                lossy.replyDelayMs.set(20);
                lossy.dropAndCutAfter(round / 2);
                candidates.add(client);
                Thread.sleep(20 * (1 + round / 2));
                if (round % 2 == 0) {
                    expire(client);
                }
                boolean isSettled = candidates.settle();
                candidates.resign();
                return isSettled && candidates.settle() && candidates.nodes() == 1;
            }
        });
        return "in " + settled + " of 20 rounds, the leaders have nodes, and no other nodes are left";
    }

    /** The client of a waiting candidate gives its session up, and then the leader resigns. */
    private String waitingCandidateOfThePreviousSession() throws Exception {
        AtomicInteger nodes = new AtomicInteger();
        int leads = count(5, round -> {
            try (Candidates candidates = new Candidates(server, "/waiting-" + round)) {
                candidates.add(server);
                candidates.leader(10_000);
                candidates.add(server);
                candidates.waitForNodes(2);
                expire(candidates.clients.get(1));
                Thread.sleep(3 * SESSION_TIMEOUT_MS);
                nodes.addAndGet(candidates.nodes() - 1);
                candidates.resign();
                candidates.leader(10_000);
                return candidates.settle();
            }
        });
        return nodes + " of 5 candidates have a node three session timeouts later, and " + leads
                + " lead after the leader resigns";
    }

    /** A selector is closed, which interrupts its thread, while it creates its node or waits. */
    private String interruptedSelector() throws Exception {
        AtomicInteger led = new AtomicInteger();
        int left = 0;
        int rounds = 60;
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                CuratorFramework other = client(server)) {
            client.blockUntilConnected();
            proxy.replyDelayMs.set(10);
            for (int round = 0; round < rounds; round++) {
                String path = root + "/62-" + round;
                CountDownLatch isHeld = new CountDownLatch(1);
                LeaderSelector holder = selector(other, path, isHeld);
                if (round % 2 == 0) {
                    holder.start();
                    isHeld.await();
                }
                LeaderSelector interrupted = selector(client, path, new CountDownLatch(1));
                interrupted.start();
                Thread.sleep(round);
                interrupted.close();
                if (round % 2 == 0) {
                    holder.close();
                }
                Thread.sleep(300);
                boolean hasNodes = other.checkExists().forPath(path) != null;
                left += hasNodes ? other.getChildren().forPath(path).size() : 0;
                CountDownLatch leads = new CountDownLatch(1);
                LeaderSelector next = selector(other, path, leads);
                next.start();
                led.addAndGet(leads.await(1, TimeUnit.SECONDS) ? 1 : 0);
                next.close();
            }
        }
        return left + " of " + rounds + " nodes are left, and the next candidate leads " + led + " times";
    }

    private static LeaderSelector selector(CuratorFramework client, String path, CountDownLatch leads) {
        return new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework ignored) throws InterruptedException {
                leads.countDown();
                new CountDownLatch(1).await();
            }
        });
    }

    private String failedServer() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderSelector> selectors = new ArrayList<>();
        String path = root + "/188";
        try (Ensemble ensemble = new Ensemble()) {
            for (int number = 0; number < Ensemble.SIZE; number++) {
                CuratorFramework client = client(ensemble.address());
                client.blockUntilConnected();
                LeaderSelector selector = selector(client, path, new CountDownLatch(1));
                selector.setId("c" + number);
                selector.autoRequeue();
                selector.start();
                clients.add(client);
                selectors.add(selector);
            }
            StringBuilder result = new StringBuilder();
            for (int round = 0; round < 3; round++) {
                int failed = ensemble.leader();
                ensemble.kill(failed);
                ensemble.leader();
                Thread.sleep(2_000);
                ensemble.start(failed);
                Thread.sleep(3 * SESSION_TIMEOUT_MS);
                result.append(clients.get(0).getChildren().forPath(path).size() + " nodes and ");
                result.append(selectors.stream().filter(LeaderSelector::hasLeadership).count() + " leader; ");
            }
            selectors.forEach(LeaderSelector::close);
            clients.forEach(CuratorFramework::close);
            return "of 3 selectors, after each failure: " + result;
        }
    }

    /** Latches of one election. A thread samples which of them lead. */
    private final class Candidates implements AutoCloseable {
        final List<CuratorFramework> clients = new CopyOnWriteArrayList<>();
        final List<LeaderLatch> latches = new CopyOnWriteArrayList<>();
        final CuratorFramework operator;
        private final String path;
        private final AtomicInteger most = new AtomicInteger();
        private final Thread sampling = new Thread(this::sample);

        Candidates(String address, String path) {
            this.operator = client(address);
            this.path = root + path;
            sampling.setDaemon(true);
            sampling.start();
        }

        LeaderLatch add(String address) throws Exception {
            return add(client(address));
        }

        LeaderLatch add(CuratorFramework client) throws Exception {
            LeaderLatch latch = new LeaderLatch(client, path, "c" + latches.size());
            clients.add(client);
            latches.add(latch);
            latch.start();
            return latch;
        }

        /** Closes the latch that was added first, and its client. */
        void resign() throws Exception {
            latches.remove(0).close();
            clients.remove(0).close();
        }

        private void sample() {
            try {
                while (true) {
                    List<LeaderLatch> leaders = leaders(latches);
                    // A leader may have resigned between two of the calls.
                    most.accumulateAndGet(leaders(leaders).size(), Math::max);
                    Thread.sleep(1);
                }
            } catch (InterruptedException closed) {
                // The trial has ended.
            }
        }

        private List<LeaderLatch> leaders(List<LeaderLatch> latches) {
            return latches.stream().filter(LeaderLatch::hasLeadership).toList();
        }

        /** Waits for a leader, and for the nodes of all candidates. */
        void waitForNodes(int count) throws Exception {
            leader(10_000);
            if (!within(10_000, () -> nodes() == count)) {
                throw new IllegalStateException("a candidate has no node in " + path);
            }
            Thread.sleep(500);
        }

        /** Waits for a leader and returns its number. */
        int leader(long ms) throws Exception {
            if (!within(ms, () -> !leaders(latches).isEmpty())) {
                throw new IllegalStateException("nobody leads " + path);
            }
            return latches.indexOf(leaders(latches).get(0));
        }

        /** Returns true if the node of the latch exists and belongs to the session of its client. */
        boolean hasNode(int number) throws Exception {
            String node = latches.get(number).getOurPath();
            Stat stat = node == null ? null : operator.checkExists().forPath(node);
            long session = clients.get(number).getZookeeperClient().getZooKeeper().getSessionId();
            return stat != null && stat.getEphemeralOwner() == session;
        }

        /** Returns true if one latch leads after two session timeouts or a while later, and it has a node. */
        boolean settle() throws Exception {
            Thread.sleep(2 * SESSION_TIMEOUT_MS);
            return within(30_000, () -> leaders(latches).size() == 1 && hasNode(leader(10_000)))
                    && most.get() == 1;
        }

        int nodes() throws Exception {
            return operator.getChildren().forPath(path).size();
        }

        String state() throws Exception {
            int leaders = leaders(latches).size();
            String node = leaders == 1 && hasNode(leader(0)) ? " with a node" : " without a node";
            return "at most " + most + " at a time, in the end " + leaders + node + ", " + nodes() + " nodes";
        }

        @Override
        public void close() throws Exception {
            sampling.interrupt();
            sampling.join();
            clients.forEach(CuratorFramework::close);
            operator.close();
        }
    }
}
