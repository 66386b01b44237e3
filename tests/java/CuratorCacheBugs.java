import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;

/** Reports about Curator's caches. See {@link Trial}. The old caches are deprecated since Curator 5. */
@SuppressWarnings("deprecation")
public final class CuratorCacheBugs extends Trial {
    private CuratorCacheBugs(String[] args) {
        super(args);
    }

    public static void main(String[] args) throws Exception {
        CuratorCacheBugs bugs = new CuratorCacheBugs(args);
        bugs.report("CURATOR-391", bugs::recreatedDuringADisconnect);
        bugs.report("CURATOR-182, 183", bugs::recreatedRoot);
        bugs.report("CURATOR-331", bugs::errorOfARequest);
        bugs.report("CURATOR-324", bugs::quickRecreation);
        bugs.report("CURATOR-705", bugs::startedCache);
        bugs.report("CURATOR-729", bugs::closedClient);
        bugs.report("CURATOR-153", bugs::outage);
        bugs.report("CURATOR-296", bugs::completeAgain);
        System.exit(0);
    }

    /** A node is deleted and created again during a disconnect, with the version that it had. */
    private String recreatedDuringADisconnect() throws Exception {
        String node = root + "/391/a";
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.build(client, root + "/391");
                TreeCache tree = new TreeCache(client, root + "/391");
                PathChildrenCache children = new PathChildrenCache(client, root + "/391", true)) {
            operator.create().creatingParentsIfNeeded().forPath(node, bytes("old"));
            List<String> events = start(cache);
            List<String> ofTree = start(tree);
            List<String> ofChildren = start(children);
            within(5_000, () -> events.contains("INITIALIZED"));
            Thread.sleep(500);
            List.of(events, ofTree, ofChildren).forEach(List::clear);
            proxy.isDown.set(true);
            proxy.cut();
            Thread.sleep(200);
            operator.delete().forPath(node);
            operator.create().forPath(node, bytes("new"));
            proxy.isDown.set(false);
            Thread.sleep(3_000);
            return "CuratorCache has " + text(cache.get(node).get()) + " data, events " + events
                    + "; TreeCache " + text(tree.getCurrentData(node)) + ", " + ofTree
                    + "; PathChildrenCache " + text(children.getCurrentData(node)) + ", " + ofChildren;
        }
    }

    /** The root is created after the start of the cache, and then deleted and created again. */
    private String recreatedRoot() throws Exception {
        String path = root + "/182";
        try (CuratorFramework client = client(server);
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.build(client, path);
                TreeCache tree = new TreeCache(client, path)) {
            operator.createContainers(root);
            client.blockUntilConnected();
            List<String> events = start(cache);
            List<String> ofTree = start(tree);
            int followed = 0;
            int followedByTree = 0;
            for (int round = 0; round < 5; round++) {
                operator.create().forPath(path);
                operator.create().forPath(path + "/a");
                followed += within(2_000, () -> cache.get(path + "/a").isPresent()) ? 1 : 0;
                followedByTree += within(2_000, () -> tree.getCurrentData(path + "/a") != null) ? 1 : 0;
                operator.delete().forPath(path + "/a");
                operator.delete().forPath(path);
                within(2_000, () -> cache.get(path).isEmpty() && tree.getCurrentData(path) == null);
            }
            return "CuratorCache follows " + followed + " of 5 roots, with " + events.size()
                    + " events, and TreeCache " + followedByTree + ", with " + ofTree.size();
        }
    }

    /**
     * The client must not read one of the nodes, which exists before the caches are started. A server sends
     * no event of such a node.
     */
    private String errorOfARequest() throws Exception {
        String path = root + "/331";
        List<String> errors = new CopyOnWriteArrayList<>();
        List<String> ofTree = new CopyOnWriteArrayList<>();
        try (CuratorFramework client = client(server);
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.builder(client, path)
                        .withExceptionHandler(error -> errors.add(error.getClass().getSimpleName()))
                        .build();
                TreeCache tree = new TreeCache(client, path)) {
            operator.create().creatingParentsIfNeeded().forPath(path);
            client.blockUntilConnected();
            tree.getUnhandledErrorListenable().addListener((text, error) -> ofTree.add("" + error));
            List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.ADMIN, new Id("world", "anyone")));
            operator.create().withACL(nobody).forPath(path + "/a");
            start(cache);
            List<String> events = start(tree);
            Thread.sleep(1_000);
            return "errors of CuratorCache " + errors + ", of TreeCache " + ofTree + ", its events " + events;
        }
    }

    private String quickRecreation() throws Exception {
        String path = root + "/324";
        try (CuratorFramework client = client(server);
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.build(client, path);
                TreeCache tree = new TreeCache(client, path);
                PathChildrenCache children = new PathChildrenCache(client, path, true)) {
            operator.create().creatingParentsIfNeeded().forPath(path + "/a");
            client.blockUntilConnected();
            List<String> events = start(cache);
            List<String> ofTree = start(tree);
            List<String> ofChildren = start(children);
            Thread.sleep(1_000);
            List.of(events, ofTree, ofChildren).forEach(List::clear);
            int rounds = 300;
            CountDownLatch done = new CountDownLatch(rounds);
            for (int round = 0; round < rounds; round++) {
                operator.delete().inBackground().forPath(path + "/a");
                operator.create()
                        .inBackground((ignored, event) -> done.countDown())
                        .forPath(path + "/a", bytes("" + round));
            }
            done.await();
            Thread.sleep(2_000);
            String last = "" + (rounds - 1);
            return "of " + rounds + " rounds: CuratorCache " + order(events)
                    + ", has the last data: " + last.equals(text(cache.get(path + "/a").orElse(null)))
                    + "; TreeCache " + order(ofTree)
                    + ", " + last.equals(text(tree.getCurrentData(path + "/a")))
                    + "; PathChildrenCache " + order(ofChildren)
                    + ", " + last.equals(text(children.getCurrentData(path + "/a")));
        }
    }

    /** Counts the events, and those that follow an event of the same kind. */
    private static String order(List<String> events) {
        long twice = IntStream.range(1, events.size())
                .filter(at -> isRemoval(events.get(at)) == isRemoval(events.get(at - 1)))
                .count();
        return events.size() + " events, " + twice + " out of turn";
    }

    private static boolean isRemoval(String event) {
        return event.contains("REMOVED") || event.contains("DELETED");
    }

    private String startedCache() throws Exception {
        String path = root + "/705";
        try (CuratorFramework client = client(server);
                CuratorFramework operator = client(server)) {
            operator.create().creatingParentsIfNeeded().forPath(path);
            for (int node = 0; node < 300; node++) {
                operator.create().forPath(path + "/" + node);
            }
            client.blockUntilConnected();
            int least = Integer.MAX_VALUE;
            int most = 0;
            for (int round = 0; round < 20; round++) {
                try (CuratorCache cache = CuratorCache.build(client, path)) {
                    cache.start();
                    least = Math.min(least, cache.size());
                    most = Math.max(most, cache.size());
                }
            }
            return "20 times after start, it has " + least + " to " + most + " of 301 nodes";
        }
    }

    /** The client is closed before its caches. */
    private String closedClient() throws Exception {
        String path = root + "/729";
        CuratorFramework client = client(server);
        client.blockUntilConnected();
        CuratorCache cache = CuratorCache.build(client, path);
        cache.start();
        Thread.sleep(500);
        client.close();
        long before = cpuMs();
        Thread.sleep(5_000);
        long used = cpuMs() - before;
        cache.close();
        return used + " ms of CPU time in 5 s after the client is closed";
    }

    private static long cpuMs() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1_000_000;
    }

    /** All servers are down for longer than the session. */
    private String outage() throws Exception {
        String path = root + "/153";
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.build(client, path);
                PathChildrenCache children = new PathChildrenCache(client, path, true)) {
            operator.create().creatingParentsIfNeeded().forPath(path);
            start(cache);
            start(children);
            int followed = 0;
            int followedByChildren = 0;
            for (int round = 0; round < 3; round++) {
                proxy.isDown.set(true);
                proxy.cut();
                Thread.sleep(3 * SESSION_TIMEOUT_MS);
                operator.create().forPath(path + "/during-" + round);
                proxy.isDown.set(false);
                Thread.sleep(2 * SESSION_TIMEOUT_MS);
                operator.create().forPath(path + "/after-" + round);
                int nodes = 2 * (round + 1);
                followed += within(5_000, () -> cache.size() == nodes + 1) ? 1 : 0;
                followedByChildren += within(5_000, () -> children.getCurrentData().size() == nodes) ? 1 : 0;
            }
            return "CuratorCache has all nodes after " + followed
                    + " of 3 outages, and PathChildrenCache after " + followedByChildren;
        }
    }

    private String completeAgain() throws Exception {
        String path = root + "/296";
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                CuratorFramework operator = client(server);
                CuratorCache cache = CuratorCache.build(client, path);
                PathChildrenCache children = new PathChildrenCache(client, path, true)) {
            operator.create().creatingParentsIfNeeded().forPath(path + "/a");
            List<String> events = start(cache);
            List<String> ofChildren = start(children);
            within(5_000, () -> events.contains("INITIALIZED"));
            Thread.sleep(500);
            for (int round = 0; round < 3; round++) {
                proxy.cut();
                within(10_000, () -> !client.getZookeeperClient().isConnected());
                within(10_000, () -> client.getZookeeperClient().isConnected());
                Thread.sleep(1_000);
            }
            return "CuratorCache " + events + "; PathChildrenCache " + ofChildren;
        }
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

    private static List<String> start(TreeCache cache) throws Exception {
        List<String> events = new CopyOnWriteArrayList<>();
        cache.getListenable().addListener((client, event) -> events.add(event.getType().name()));
        cache.start();
        return events;
    }

    private static List<String> start(PathChildrenCache cache) throws Exception {
        List<String> events = new CopyOnWriteArrayList<>();
        cache.getListenable().addListener((client, event) -> events.add(event.getType().name()));
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        return events;
    }

    private static String text(ChildData data) {
        return data == null ? "no" : new String(data.getData(), StandardCharsets.UTF_8);
    }
}
