import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Java's own client at a server that is not ZooKeeper's: {@code ForeignClient <host:port>}. Says
 * {@code passed <what>} for everything that went as it should, and ends with an exception otherwise.
 */
public final class ForeignClient {
    private static final int TIMEOUT_MS = 30_000;

    private final String server;
    private final LinkedBlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();

    private ForeignClient(String server) {
        this.server = server;
    }

    public static void main(String[] args) throws Exception {
        ForeignClient client = new ForeignClient(args[0]);
        ZooKeeper zk = client.connect();
        client.nodes(zk);
        client.watches(zk);
        client.multi(zk);
        client.ephemerals(zk);
        zk.close();
        client.curator();
    }

    private ZooKeeper connect() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(server, TIMEOUT_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        check(connected.await(TIMEOUT_MS, TimeUnit.MILLISECONDS), "a session");
        return zk;
    }

    private void nodes(ZooKeeper zk) throws Exception {
        create(zk, "/n", CreateMode.PERSISTENT);
        Stat stat = new Stat();
        check(Arrays.equals(zk.getData("/n", false, stat), utf8("/n")), "data");
        check(zk.setData("/n", utf8("new"), stat.getVersion()).getVersion() == 1, "a version");
        try {
            zk.setData("/n", utf8("late"), 0);
            check(false, "BadVersion");
        } catch (KeeperException.BadVersionException expected) {
            passed("create, get, set");
        }
        String first = create(zk, "/n/s-", CreateMode.PERSISTENT_SEQUENTIAL);
        String second = create(zk, "/n/s-", CreateMode.PERSISTENT_SEQUENTIAL);
        check(first.equals("/n/s-0000000000") && second.equals("/n/s-0000000001"), "sequences");
        check(zk.getChildren("/n", false).size() == 2, "children");
        check(zk.getAllChildrenNumber("/n") == 2, "their number");
        check(!zk.whoAmI().isEmpty(), "an identity");
        passed("sequences, children");
    }

    private void watches(ZooKeeper zk) throws Exception {
        zk.exists("/w", events::add);
        create(zk, "/w", CreateMode.PERSISTENT);
        expect(Watcher.Event.EventType.NodeCreated, "/w");
        zk.addWatch("/w", events::add, AddWatchMode.PERSISTENT_RECURSIVE);
        create(zk, "/w/c", CreateMode.PERSISTENT);
        expect(Watcher.Event.EventType.NodeCreated, "/w/c");
        zk.delete("/w/c", -1);
        expect(Watcher.Event.EventType.NodeDeleted, "/w/c");
        passed("watches");
    }

    private void multi(ZooKeeper zk) throws Exception {
        List<OpResult> results = zk.multi(Arrays.asList(
                Op.create("/m", utf8("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData("/m", utf8("2"), 0),
                Op.check("/m", 1)));
        check(results.size() == 3, "three results");
        try {
            zk.multi(Arrays.asList(Op.delete("/m", -1), Op.delete("/nowhere", -1)));
            check(false, "NoNode");
        } catch (KeeperException.NoNodeException expected) {
            check(zk.exists("/m", false) != null, "a multi that is rolled back");
        }
        passed("multi");
    }

    private void ephemerals(ZooKeeper zk) throws Exception {
        ZooKeeper other = connect();
        create(other, "/e", CreateMode.EPHEMERAL);
        check(zk.exists("/e", events::add).getEphemeralOwner() == other.getSessionId(), "an owner");
        other.close();
        expect(Watcher.Event.EventType.NodeDeleted, "/e");
        passed("ephemerals");
    }

    /** By reflection, so that this compiles where there is no Curator. */
    private void curator() throws Exception {
        Class<?> factory;
        Class<?> mutex;
        try {
            factory = Class.forName("org.apache.curator.framework.CuratorFrameworkFactory");
            mutex = Class.forName("org.apache.curator.framework.recipes.locks.InterProcessMutex");
        } catch (ClassNotFoundException absent) {
            System.out.println("skipped curator: no libcurator-recipes-java here");
            return;
        }
        Class<?> policy = Class.forName("org.apache.curator.RetryPolicy");
        Object once = Class.forName("org.apache.curator.retry.RetryOneTime")
                .getConstructor(int.class).newInstance(100);
        Object curator = factory.getMethod("newClient", String.class, policy)
                .invoke(null, server, once);
        Class<?> framework = Class.forName("org.apache.curator.framework.CuratorFramework");
        framework.getMethod("start").invoke(curator);
        Object first = mutex.getConstructor(framework, String.class).newInstance(curator, "/lock");
        Object second = mutex.getConstructor(framework, String.class).newInstance(curator, "/lock");
        mutex.getMethod("acquire").invoke(first);
        Thread waiter = new Thread(() -> {
            try {
                mutex.getMethod("acquire").invoke(second);
                mutex.getMethod("release").invoke(second);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        });
        waiter.start();
        waiter.join(300);
        check(waiter.isAlive(), "a lock that excludes");
        mutex.getMethod("release").invoke(first);
        waiter.join(TIMEOUT_MS);
        check(!waiter.isAlive(), "a lock that is handed on");
        framework.getMethod("close").invoke(curator);
        passed("curator");
    }

    private void expect(Watcher.Event.EventType type, String path) throws InterruptedException {
        WatchedEvent event = events.poll(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        check(event != null && event.getType() == type && event.getPath().equals(path),
                type + " " + path + ", not " + event);
    }

    private static String create(ZooKeeper zk, String path, CreateMode mode) throws Exception {
        return zk.create(path, utf8(path), Ids.OPEN_ACL_UNSAFE, mode);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void check(boolean isSo, String what) {
        if (!isSo) {
            throw new IllegalStateException("expected " + what);
        }
    }

    private static void passed(String what) {
        System.out.println("passed " + what);
    }
}
