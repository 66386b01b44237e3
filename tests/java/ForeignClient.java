import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
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
import org.apache.zookeeper.ZooKeeperMain;
import org.apache.zookeeper.data.Stat;

/**
 * Java's own client at a server that is not ZooKeeper's: {@code ForeignClient <host:port>}. Says
 * {@code passed <what>} for everything that went as it should, and ends with an exception otherwise.
 */
public final class ForeignClient {
    private static final int TIMEOUT_MS = 30_000;

    /** Whether this is the client of ZooKeeper 3.7 or later. */
    private static final boolean HAS_WHO_AM_I =
        Arrays.stream(ZooKeeper.class.getMethods()).anyMatch(it -> it.getName().equals("whoAmI"));
    /** How long one waits for what must not happen. */
    private static final long SHORT_MS = 200;

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
        client.shell(zk);
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
        if (HAS_WHO_AM_I) {
            Method whoAmI = ZooKeeper.class.getMethod("whoAmI");
            check(!((List<?>) whoAmI.invoke(zk)).isEmpty(), "an identity");
        }
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

    /** What one types at {@code zkCli.sh}, and what has to be in its answer. */
    private void shell(ZooKeeper zk) throws Exception {
        String[][] lines = {
            {"create /cli data", "Created /cli"},
            {"create -s /cli/s-", "Created /cli/s-0000000000"},
            {"create -e /cli/e", "Created /cli/e"},
            {"create -e -s /cli/q-", "Created /cli/q-0000000002"},
            {"create -c /cli/container", "Created /cli/container"},
            {"create -t 60000 /cli/ttl", "Created /cli/ttl"},
            {"create /cli", "Node already exists: /cli"},
            {"get -s /cli", "numChildren = 5"},
            {"get /nowhere", "Node does not exist: /nowhere"},
            {"set -v 0 /cli new", ""},
            {"set -v 0 /cli late", "version No is not valid : /cli"},
            {"stat /cli", "dataVersion = 1"},
            {"ls -s /cli", "[container, e, q-0000000002, s-0000000000, ttl]"},
            {"ls -R /cli", "/cli/container"},
            {"getAllChildrenNumber /cli", "5"},
            {"getEphemerals /cli", "/cli/q-0000000002"},
            {"addauth digest user:password", ""},
            // A shell of ZooKeeper 3.6 does not have it.
            {HAS_WHO_AM_I ? "whoami" : "getAcl /cli", HAS_WHO_AM_I ? "digest: user" : "world"},
            {"setAcl /cli auth::cdrwa", ""},
            {"getAcl -s /cli", "'digest,'user:"},
            {"setAcl /cli world:anyone:cdrwa", ""},
            {"setquota -n 50 /cli", ""},
            {"listquota /cli", "Output quota for /cli"},
            {"delquota /cli", ""},
            {"addWatch -m PERSISTENT /cli", ""},
            {"removewatches /cli -a", ""},
            {"sync /cli", "Sync is OK"},
            {"delete -v 7 /cli/e", "version No is not valid : /cli/e"},
            {"delete /cli", "Node not empty: /cli"},
            {"deleteall /cli", ""},
            {"stat /cli", "Node does not exist: /cli"},
        };
        // Its commands keep the streams that they find when the class is loaded.
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(said, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        try {
            ZooKeeperMain shell = new ZooKeeperMain(zk);
            for (String[] line : lines) {
                said.reset();
                shell.executeLine(line[0]);
                String answer = said.toString("UTF-8");
                check(answer.contains(line[1]), line[1] + " from " + line[0] + ", not " + answer);
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        passed("zkCli");
    }

    /** By reflection, so that this compiles where there is no Curator. */
    private void curator() throws Exception {
        if (!hasCurator()) {
            System.out.println("skipped curator: no libcurator-recipes-java here");
            return;
        }
        Object one = framework();
        Object other = framework();
        excludes("Curator's InterProcessMutex",
                lock("InterProcessMutex", one, "/mutex"), lock("InterProcessMutex", other, "/mutex"));
        excludes("Curator's InterProcessSemaphoreMutex",
                lock("InterProcessSemaphoreMutex", one, "/semaphore-mutex"),
                lock("InterProcessSemaphoreMutex", other, "/semaphore-mutex"));
        readWriteLock(one, other);
        semaphore(one, other);
        for (Object client : new Object[] {one, other}) {
            type("framework.CuratorFramework").getMethod("close").invoke(client);
        }
    }

    private static boolean hasCurator() {
        try {
            type("framework.recipes.locks.InterProcessMutex");
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.curator." + name);
    }

    private Object framework() throws Exception {
        Object once = type("retry.RetryOneTime").getConstructor(int.class).newInstance(100);
        Object client = type("framework.CuratorFrameworkFactory")
                .getMethod("newClient", String.class, type("RetryPolicy"))
                .invoke(null, server, once);
        type("framework.CuratorFramework").getMethod("start").invoke(client);
        return client;
    }

    private static Object lock(String recipe, Object client, String path) throws Exception {
        return type("framework.recipes.locks." + recipe)
                .getConstructor(type("framework.CuratorFramework"), String.class)
                .newInstance(client, path);
    }

    private void readWriteLock(Object one, Object other) throws Exception {
        Class<?> recipe = type("framework.recipes.locks.InterProcessReadWriteLock");
        Method read = recipe.getMethod("readLock");
        Method write = recipe.getMethod("writeLock");
        Object first = lock("InterProcessReadWriteLock", one, "/rw");
        Object second = lock("InterProcessReadWriteLock", other, "/rw");
        check(acquire(read.invoke(first), TIMEOUT_MS), "a first reader");
        check(acquire(read.invoke(second), TIMEOUT_MS), "a second reader");
        release(read.invoke(first));
        check(!acquire(write.invoke(first), SHORT_MS), "a reader that keeps a writer out");
        release(read.invoke(second));
        excludes("Curator's InterProcessReadWriteLock", write.invoke(first), read.invoke(second));
    }

    private void semaphore(Object one, Object other) throws Exception {
        Class<?> recipe = type("framework.recipes.locks.InterProcessSemaphoreV2");
        Object[] sides = new Object[2];
        for (int side = 0; side < 2; side++) {
            sides[side] = recipe
                    .getConstructor(type("framework.CuratorFramework"), String.class, int.class)
                    .newInstance(side == 0 ? one : other, "/semaphore", 2);
        }
        Method acquire = recipe.getMethod("acquire", long.class, TimeUnit.class);
        Object first = acquire.invoke(sides[0], (long) TIMEOUT_MS, TimeUnit.MILLISECONDS);
        Object second = acquire.invoke(sides[1], (long) TIMEOUT_MS, TimeUnit.MILLISECONDS);
        check(first != null && second != null, "two leases");
        check(acquire.invoke(sides[1], SHORT_MS, TimeUnit.MILLISECONDS) == null, "no third");
        Method giveBack = recipe.getMethod("returnLease", type("framework.recipes.locks.Lease"));
        giveBack.invoke(sides[0], first);
        Object third = acquire.invoke(sides[1], (long) TIMEOUT_MS, TimeUnit.MILLISECONDS);
        check(third != null, "a lease that was given back");
        giveBack.invoke(sides[1], second);
        giveBack.invoke(sides[1], third);
        passed("Curator's InterProcessSemaphoreV2");
    }

    /** The second gets in when the first is out, and not before. */
    private static void excludes(String what, Object first, Object second) throws Exception {
        check(acquire(first, TIMEOUT_MS), what + ", free");
        check(!acquire(second, SHORT_MS), what + ", held by another");
        CountDownLatch waits = new CountDownLatch(1);
        Thread waiter = new Thread(() -> {
            try {
                waits.countDown();
                check(acquire(second, TIMEOUT_MS), what + ", handed on");
                release(second);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        boolean[] failed = new boolean[1];
        waiter.setUncaughtExceptionHandler((thread, e) -> failed[0] = true);
        waiter.start();
        waits.await();
        release(first);
        waiter.join(2 * TIMEOUT_MS);
        check(!waiter.isAlive() && !failed[0], what + ", handed on");
        passed(what);
    }

    private static boolean acquire(Object lock, long withinMs) throws Exception {
        return (Boolean) type("framework.recipes.locks.InterProcessLock")
                .getMethod("acquire", long.class, TimeUnit.class)
                .invoke(lock, withinMs, TimeUnit.MILLISECONDS);
    }

    private static void release(Object lock) throws Exception {
        type("framework.recipes.locks.InterProcessLock").getMethod("release").invoke(lock);
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
