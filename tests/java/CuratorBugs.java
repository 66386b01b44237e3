import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Tries reports about Curator: {@code CuratorBugs HOST:PORT [REPORT...]}. Without names of reports, it tries
 * all of them. Each line of the output is a report, and what was seen.
 */
public final class CuratorBugs implements AutoCloseable {
    private static final int SESSION_TIMEOUT_MS = 4_000;

    private final String server;
    private final String root = "/curator-bugs-" + System.nanoTime();
    private final List<CuratorFramework> clients = new ArrayList<>();
    private final FaultyProxy proxy;
    /** The client behind the proxy. */
    private final CuratorFramework client;
    /** A client of the server itself. */
    private final CuratorFramework operator;

    /** Returns a sentence about what was seen. */
    private interface Trial {
        String run(CuratorBugs bugs) throws Exception;
    }

    private CuratorBugs(String server) throws Exception {
        this.server = server;
        proxy = new FaultyProxy(server);
        client = client(proxy.address());
        operator = client(server);
        operator.createContainers(root);
    }

    public static void main(String[] args) throws Exception {
        Map<String, Trial> trials = new LinkedHashMap<>();
        trials.put("node of another process", CuratorBugs::nodeOfAnotherProcess);
        trials.put("own id in a group", CuratorBugs::ownIdWithoutNode);
        trials.put("lost reply of an addition", CuratorBugs::lostReply);
        trials.put("CURATOR-654", CuratorBugs::watchOfAWaitThatTimedOut);
        trials.put("more members than a barrier has", CuratorBugs::overSubscribed);
        trials.put("CURATOR-318", CuratorBugs::memberThatTimedOut);
        trials.put("GH-1290", CuratorBugs::reconnectInABarrier);
        trials.put("waiting candidate", CuratorBugs::waitingCandidate);
        trials.put("CURATOR-391", CuratorBugs::recreatedDuringADisconnect);
        trials.put("CURATOR-331", CuratorBugs::errorOfARequest);
        trials.put("CURATOR-705", CuratorBugs::startedCache);
        trials.put("CURATOR-296", CuratorBugs::completeAgain);
        trials.put("CURATOR-146", CuratorBugs::dataAfterAReconnect);
        trials.put("CURATOR-164", CuratorBugs::unregisterAtAReconnect);
        trials.put("CURATOR-320", CuratorBugs::nodesOfReconnects);
        trials.put("CURATOR-617", CuratorBugs::unregisterDuringAnOutage);
        List<String> names = Arrays.asList(args).subList(1, args.length);
        for (Map.Entry<String, Trial> trial : trials.entrySet()) {
            if (names.isEmpty() || names.contains(trial.getKey())) {
                try (CuratorBugs bugs = new CuratorBugs(args[0])) {
                    System.out.println(trial.getKey() + ": " + trial.getValue().run(bugs));
                } catch (Exception error) {
                    System.out.println(trial.getKey() + ": error " + error);
                }
            }
        }
        System.exit(0);
    }

    private String nodeOfAnotherProcess() throws Exception {
        for (String data : List.of("first", "second")) {
            CuratorFramework process = client(server);
            PersistentNode node =
                    new PersistentNode(process, CreateMode.EPHEMERAL, false, root + "/other", bytes(data));
            node.start();
            node.waitForInitialCreate(5, TimeUnit.SECONDS);
        }
        Thread.sleep(500);
        String data = new String(operator.getData().forPath(root + "/other"), StandardCharsets.UTF_8);
        return "the data of the first process is " + data + " after the second starts";
    }

    private String ownIdWithoutNode() {
        GroupMember member = new GroupMember(client, root + "/group", "me", bytes("a"));
        return "the own id is listed before its node exists: " + member.getCurrentMembers().containsKey("me");
    }

    private String lostReply() throws Exception {
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

    private String watchOfAWaitThatTimedOut() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(client, root + "/654");
        barrier.setBarrier();
        for (int round = 0; round < 5; round++) {
            barrier.waitOnBarrier(50, TimeUnit.MILLISECONDS);
        }
        return "watches of the server after 5 waits: " + proxy.fourLetters("wchs");
    }

    private CompletableFuture<Boolean> enter(String path, int seconds) {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, root + path, 2);
        return async(() -> barrier.enter(seconds, TimeUnit.SECONDS));
    }

    private String overSubscribed() {
        List<CompletableFuture<Boolean>> all = new ArrayList<>();
        for (int member = 0; member < 5; member++) {
            all.add(enter("/over", 3));
        }
        long entered = all.stream().filter(CompletableFuture::join).count();
        return entered + " of 5 members enter a barrier of 2";
    }

    private String memberThatTimedOut() {
        boolean first = enter("/318", 1).join();
        boolean second = enter("/318", 2).join();
        return "the first member times out: " + !first + ", and the second alone enters: " + second;
    }

    private String reconnectInABarrier() throws Exception {
        CompletableFuture<Boolean> entered = enter("/1290", 6);
        Thread.sleep(1_000);
        proxy.cut();
        try {
            return "a member alone enters after a reconnect: " + entered.join();
        } catch (Exception error) {
            return "enter fails after a reconnect: " + error.getCause();
        }
    }

    /** The client of a waiting candidate gives its session up, and then the leader resigns. */
    private String waitingCandidate() throws Exception {
        String path = root + "/waiting";
        LeaderLatch leader = new LeaderLatch(operator, path, "leader");
        leader.start();
        leader.await();
        LeaderLatch waiting = new LeaderLatch(client, path, "waiting");
        waiting.start();
        within(10_000, () -> operator.getChildren().forPath(path).size() == 2);
        expire();
        Thread.sleep(3 * SESSION_TIMEOUT_MS);
        int nodes = operator.getChildren().forPath(path).size() - 1;
        leader.close();
        return "the waiting candidate has " + nodes + " nodes three session timeouts later, and leads: "
                + waiting.await(10, TimeUnit.SECONDS);
    }

    /** A node is deleted and created again during a disconnect, with the version that it had. */
    private String recreatedDuringADisconnect() throws Exception {
        String node = create("/391/a");
        CuratorCache cache = CuratorCache.build(client, root + "/391");
        List<String> events = start(cache);
        within(5_000, () -> events.contains("INITIALIZED"));
        proxy.goDown();
        Thread.sleep(200);
        operator.delete().forPath(node);
        operator.create().forPath(node, bytes("new"));
        proxy.isDown.set(false);
        Thread.sleep(3_000);
        byte[] data = cache.get(node).get().getData();
        return "data " + new String(data, StandardCharsets.UTF_8) + ", events " + events;
    }

    /** The client must not read one of the nodes, which exists before the caches are started. */
    @SuppressWarnings("deprecation")
    private String errorOfARequest() throws Exception {
        List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.ADMIN, new Id("world", "anyone")));
        operator.setACL().withACL(nobody).forPath(create("/331/a"));
        List<String> errors = new CopyOnWriteArrayList<>();
        start(CuratorCache.builder(client, root + "/331")
                .withExceptionHandler(error -> errors.add("CuratorCache " + error))
                .build());
        TreeCache tree = new TreeCache(client, root + "/331");
        tree.getUnhandledErrorListenable().addListener((text, error) -> errors.add("TreeCache " + error));
        tree.start();
        Thread.sleep(1_000);
        return "errors " + errors;
    }

    private String startedCache() throws Exception {
        for (int node = 0; node < 300; node++) {
            create("/705/" + node);
        }
        CuratorCache cache = CuratorCache.build(client, root + "/705");
        cache.start();
        return "after start, it has " + cache.size() + " of 301 nodes";
    }

    private String completeAgain() throws Exception {
        create("/296/a");
        List<String> events = start(CuratorCache.build(client, root + "/296"));
        within(5_000, () -> events.contains("INITIALIZED"));
        for (int round = 0; round < 3; round++) {
            reconnect();
            Thread.sleep(1_000);
        }
        return "events " + events;
    }

    /** An instance is changed in one of two ways before its client reconnects or has a new session. */
    private String dataAfterAReconnect() throws Exception {
        StringBuilder result = new StringBuilder();
        for (int round = 0; round < 4; round++) {
            boolean isUpdate = round < 2;
            boolean isExpiry = round % 2 == 1;
            ServiceDiscovery<Void> discovery = discovery("/146-" + round);
            discovery.registerService(instance("a", 8080));
            if (isUpdate) {
                discovery.updateService(instance("a", 9090));
            } else {
                discovery.registerService(instance("a", 9090));
            }
            if (isExpiry) {
                expire();
            } else {
                proxy.cut();
            }
            Thread.sleep(2 * SESSION_TIMEOUT_MS);
            result.append(isUpdate ? "updateService" : "second registerService")
                    .append(isExpiry ? ", next session: port " : ", reconnect: port ")
                    .append(discovery.queryForInstance("web", "a").getPort() + "; ");
        }
        return result.toString();
    }

    /** The last instance is unregistered when the one before it has been registered after a reconnect. */
    private String unregisterAtAReconnect() throws Exception {
        ServiceDiscovery<Void> discovery = discovery("/164");
        for (int number = 0; number < 5; number++) {
            discovery.registerService(instance("" + number, 8080));
        }
        String before = root + "/164/web/3";
        long old = operator.checkExists().forPath(before).getCzxid();
        proxy.replyDelayMs.set(100);
        proxy.cut();
        within(10_000, () -> {
            Stat stat = operator.checkExists().forPath(before);
            return stat != null && stat.getCzxid() != old;
        });
        discovery.unregisterService(instance("4", 8080));
        Thread.sleep(2_000);
        return "2 s after unregisterService, the instance is registered: " + isThere("/164/web/4");
    }

    private String nodesOfReconnects() throws Exception {
        ServiceDiscovery<Void> discovery = discovery("/320");
        for (int number = 0; number < 20; number++) {
            discovery.registerService(instance("" + number, 8080));
        }
        Thread.sleep(500);
        int before = operator.checkExists().forPath(root + "/320/web").getCversion();
        for (int round = 0; round < 5; round++) {
            proxy.cut();
            Thread.sleep(3_000);
        }
        // Each node is deleted and created.
        int changes = operator.checkExists().forPath(root + "/320/web").getCversion() - before;
        return changes / 2 + " nodes are created at 5 reconnects, for 20 instances";
    }

    /** The first call fails, and the second one is made when the servers are up again. */
    private String unregisterDuringAnOutage() throws Exception {
        ServiceDiscovery<Void> discovery = discovery("/617");
        // The end of the session does not unregister this instance.
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder()
                .name("web")
                .id("a")
                .serviceType(ServiceType.PERMANENT)
                .build();
        discovery.registerService(instance);
        proxy.goDown();
        String first = "returns";
        try {
            discovery.unregisterService(instance);
        } catch (Exception error) {
            first = "fails with " + error.getClass().getSimpleName();
        }
        proxy.isDown.set(false);
        within(10_000, () -> client.getZookeeperClient().isConnected());
        discovery.unregisterService(instance);
        boolean isLeft = isThere("/617/web/a");
        Thread.sleep(2_000);
        return "the first call " + first + "; after the second one, the instance is registered: " + isLeft
                + ", and 2 s later: " + isThere("/617/web/a");
    }

    private ServiceDiscovery<Void> discovery(String base) throws Exception {
        ServiceDiscovery<Void> discovery =
                ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath(root + base).build();
        discovery.start();
        return discovery;
    }

    private static ServiceInstance<Void> instance(String id, int port) throws Exception {
        return ServiceInstance.<Void>builder().name("web").id(id).address("10.0.0.8").port(port).build();
    }

    private static List<String> start(CuratorCache cache) {
        List<String> events = new CopyOnWriteArrayList<>();
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(() -> events.add("INITIALIZED"))
                .forAll((type, old, data) -> events.add(type.name()))
                .build());
        cache.start();
        return events;
    }

    private String create(String path) throws Exception {
        return operator.create().creatingParentsIfNeeded().forPath(root + path, bytes("old"));
    }

    private boolean isThere(String path) throws Exception {
        return operator.checkExists().forPath(root + path) != null;
    }

    private void reconnect() throws Exception {
        proxy.cut();
        within(10_000, () -> !client.getZookeeperClient().isConnected());
        within(10_000, () -> client.getZookeeperClient().isConnected());
    }

    /** Ends the session for the client. The server keeps it, and its nodes, for a session timeout. */
    private void expire() throws Exception {
        client.getZookeeperClient().getZooKeeper().getTestable().injectSessionExpiration();
    }

    private CuratorFramework client(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                address, SESSION_TIMEOUT_MS, 3_000, new RetryNTimes(20, 100));
        clients.add(client);
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static <T> CompletableFuture<T> async(Callable<T> call) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return call.call();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }, command -> new Thread(command).start());
    }

    /** Waits until the condition holds, or until the time has passed. */
    private static void within(long ms, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + ms * 1_000_000;
        while (!condition.call() && System.nanoTime() < end) {
            Thread.sleep(2);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws Exception {
        clients.forEach(CuratorFramework::close);
        proxy.close();
    }
}
