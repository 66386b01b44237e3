import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Performs every operation of the Java client once, for {@code record_wire}, which runs this and
 * writes down what goes over the wire.
 *
 * <p>Arguments: the scenario, where to connect to, and where the server is when nobody listens in.
 * Before each operation a line on standard output says what comes, and a line on standard input
 * says that the recorder is ready.
 */
public final class RecordWire {
    private static final BufferedReader RECORDER =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final int TIMEOUT_MS = 30_000;

    /** An operation that may fail, because how it fails is what is to be recorded. */
    private interface Operation {
        void run() throws KeeperException, InterruptedException;
    }

    public static void main(String[] args) throws Exception {
        tell("client " + Version.getVersion());
        switch (args[0]) {
            case "operations" -> operations(args[1]);
            case "watches" -> watches(args[1], args[2]);
            case "sasl" -> sasl(args[1]);
            case "reconfig" -> reconfig(args[1]);
            default -> throw new IllegalArgumentException(args[0]);
        }
        tell("step - end");
    }

    private static void operations(String server) throws Exception {
        step("connect", "new ZooKeeper(server, 30000, watcher)");
        Session session = new Session(server, TIMEOUT_MS);
        ZooKeeper zk = session.zk;
        quiet();
        zk.create("/g", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);

        create(zk);
        readAndWrite(zk);
        multi(zk);
        errors(zk);
        identities(zk);

        step("ping", "nothing for a third of the session timeout");
        Session idle = new Session(server, 4_000);
        tell("ping");
        quiet();
        idle.zk.close();

        step("closeSession", "close()");
        zk.close();
    }

    private static void create(ZooKeeper zk) throws Exception {
        step("create", "create(/g/plain, hello, world:anyone, PERSISTENT)");
        zk.create("/g/plain", utf8("hello"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("create", "create(/g/null, null, world:anyone, PERSISTENT)");
        zk.create("/g/null", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("create", "create(/g/empty, no bytes, world:anyone, PERSISTENT)");
        zk.create("/g/empty", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("create", "create(/g/e-, 10.0.0.1, world:anyone, EPHEMERAL_SEQUENTIAL)");
        zk.create("/g/e-", utf8("10.0.0.1"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);

        Stat stat = new Stat();
        step("create2", "create(/g/two, hi, world:anyone, EPHEMERAL, stat)");
        zk.create("/g/two", utf8("hi"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
        step("create2", "create(/g/s-, null, world:anyone, PERSISTENT_SEQUENTIAL, stat)");
        zk.create("/g/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL, stat);
        step("createContainer", "create(/g/box, no bytes, world:anyone, CONTAINER, stat)");
        zk.create("/g/box", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        step("createTTL", "create(/g/ttl, x, world:anyone, PERSISTENT_WITH_TTL, stat, 600000)");
        zk.create("/g/ttl", utf8("x"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat,
                600_000);
        step("createTTL",
                "create(/g/t-, x, world:anyone, PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 1)");
        zk.create("/g/t-", utf8("x"), Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 1);
    }

    private static void readAndWrite(ZooKeeper zk) throws Exception {
        Watcher watcher = event -> {};
        step("exists", "exists(/g/plain, false)");
        zk.exists("/g/plain", false);
        step("exists", "exists(/g/missing, watcher)");
        zk.exists("/g/missing", watcher);
        step("getData", "getData(/g/plain, watcher, stat)");
        zk.getData("/g/plain", watcher, new Stat());
        step("getData", "getData(/g/null, false, stat)");
        zk.getData("/g/null", false, new Stat());
        step("getData", "getData(/g/empty, false, stat)");
        zk.getData("/g/empty", false, new Stat());
        step("setData", "setData(/g/empty, now full, 0)");
        zk.setData("/g/empty", utf8("now full"), 0);
        step("setData", "setData(/g/empty, null, -1)");
        zk.setData("/g/empty", null, -1);

        quiet();
        zk.create("/g/box/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/g/box/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/g/box/a/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        step("getChildren", "getChildren(/g/box, watcher)");
        zk.getChildren("/g/box", watcher);
        step("getChildren", "getChildren(/g/plain, false)");
        zk.getChildren("/g/plain", false);
        step("getChildren2", "getChildren(/g/box, false, stat)");
        zk.getChildren("/g/box", false, new Stat());
        step("getAllChildrenNumber", "getAllChildrenNumber(/g/box)");
        zk.getAllChildrenNumber("/g/box");
        step("getEphemerals", "getEphemerals()");
        zk.getEphemerals();
        step("getEphemerals", "getEphemerals(/g/box)");
        zk.getEphemerals("/g/box");
        step("sync", "sync(/g, callback, null)");
        LinkedBlockingQueue<Integer> synced = new LinkedBlockingQueue<>();
        zk.sync("/g", (code, path, context) -> synced.add(code), null);
        synced.take();

        step("checkWatches", "removeWatches(/g/plain, watcher, Data, false)");
        zk.removeWatches("/g/plain", watcher, Watcher.WatcherType.Data, false);
        step("removeWatches", "removeAllWatches(/g/box, Any, false)");
        zk.removeAllWatches("/g/box", Watcher.WatcherType.Any, false);
        step("addWatch", "addWatch(/g/box, watcher, PERSISTENT)");
        zk.addWatch("/g/box", watcher, AddWatchMode.PERSISTENT);
        step("addWatch", "addWatch(/g/box/a, watcher, PERSISTENT_RECURSIVE)");
        zk.addWatch("/g/box/a", watcher, AddWatchMode.PERSISTENT_RECURSIVE);

        step("notification", "create(/g/missing), which exists watches");
        zk.create("/g/missing", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("notification", "setData(/g/box), which addWatch watches");
        zk.setData("/g/box", utf8("news"), -1);
        step("notification", "delete(/g/box/a/x), whose parent a recursive addWatch watches");
        zk.delete("/g/box/a/x", -1);
        step("notification", "create(/g/box/c), whose parent addWatch watches");
        zk.create("/g/box/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        quiet();
        zk.removeAllWatches("/g/box", Watcher.WatcherType.Any, false);
        zk.removeAllWatches("/g/box/a", Watcher.WatcherType.Any, false);

        step("delete", "delete(/g/missing, 0)");
        zk.delete("/g/missing", 0);
        step("delete", "delete(/g/box/c, -1)");
        zk.delete("/g/box/c", -1);
    }

    private static void multi(ZooKeeper zk) throws Exception {
        step("multi", "multi(every kind of operation)");
        zk.multi(Arrays.asList(
                Op.create("/g/m", utf8("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.create("/g/m/box", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
                Op.create("/g/m/ttl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL,
                        60_000),
                Op.setData("/g/m", utf8("22"), 0),
                Op.check("/g/m", 1),
                Op.delete("/g/m/box", -1)));
        step("multi", "multi(create, delete at a wrong version, setData): rolled back");
        failing(() -> zk.multi(Arrays.asList(
                Op.create("/g/m/n", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.delete("/g/plain", 7),
                Op.setData("/g/m", null, -1))));
        step("check", "multi(check(/g/m, 1))");
        zk.multi(Collections.singletonList(Op.check("/g/m", 1)));
        step("check", "multi(check(/g/m, 9)): the version is 1");
        failing(() -> zk.multi(Collections.singletonList(Op.check("/g/m", 9))));
        step("multiRead", "multi(getData, getChildren, getData of a missing node)");
        zk.multi(Arrays.asList(
                Op.getData("/g/plain"), Op.getChildren("/g/m"), Op.getData("/g/nowhere")));
    }

    private static void errors(ZooKeeper zk) throws Exception {
        step("errors", "NoNode: getData(/g/nowhere)");
        failing(() -> zk.getData("/g/nowhere", false, new Stat()));
        step("errors", "BadVersion: setData(/g/plain, null, 5)");
        failing(() -> zk.setData("/g/plain", null, 5));
        step("errors", "NodeExists: create(/g/plain)");
        failing(() ->
                zk.create("/g/plain", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        step("errors", "NotEmpty: delete(/g)");
        failing(() -> zk.delete("/g", -1));
        step("errors", "NoChildrenForEphemerals: create(/g/two/x)");
        failing(() -> zk.create("/g/two/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        step("errors", "InvalidACL: create(/g/x) by auth without an identity");
        failing(() -> zk.create("/g/x", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        quiet();
        zk.create("/g/closed", null, acl(new ACL(Perms.ADMIN, Ids.ANYONE_ID_UNSAFE)),
                CreateMode.PERSISTENT);
        step("errors", "NoAuth: getData(/g/closed)");
        failing(() -> zk.getData("/g/closed", false, new Stat()));
        step("errors", "ReconfigDisabled: reconfigure(null, 9, null, -1)");
        failing(() -> ((ZooKeeperAdmin) zk).reconfigure((String) null, "9", null, -1, new Stat()));
    }

    private static void identities(ZooKeeper zk) throws Exception {
        step("getACL", "getACL(/g, stat)");
        zk.getACL("/g", new Stat());
        step("auth", "addAuthInfo(digest, alice:secret)");
        zk.addAuthInfo("digest", utf8("alice:secret"));
        step("whoAmI", "whoAmI() after addAuthInfo");
        zk.whoAmI();
        quiet();
        zk.create("/g/acl", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("setACL", "setACL(/g/acl, auth all, world read, ip 10.0.0.0/8 read and write, 0)");
        zk.setACL("/g/acl", acl(
                new ACL(Perms.ALL, Ids.AUTH_IDS),
                new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE),
                new ACL(Perms.READ | Perms.WRITE, new Id("ip", "10.0.0.0/8"))), 0);
        step("getACL", "getACL(/g/acl, stat)");
        zk.getACL("/g/acl", new Stat());
        // A character beyond the first plane goes out as CESU-8, which a server does not read.
        List<ACL> smile = acl(
                new ACL(Perms.ALL, Ids.AUTH_IDS),
                new ACL(Perms.READ, new Id("digest", "u\uD83D\uDE00:x")));
        step("liberal", "setACL(/g/acl, an id with U+1F600, -1)");
        zk.setACL("/g/acl", smile, -1);
    }

    private static void watches(String server, String direct) throws Exception {
        quiet();
        Session session = new Session(server, TIMEOUT_MS);
        ZooKeeper zk = session.zk;
        ZooKeeper other = new Session(direct, TIMEOUT_MS).zk;
        for (String path : List.of("/w", "/w/data", "/w/child", "/w/tree")) {
            zk.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        Watcher watcher = event -> {};
        zk.getData("/w/data", watcher, new Stat());
        zk.getData("/w", watcher, new Stat());
        zk.exists("/w/later", watcher);
        zk.getChildren("/w/child", watcher);
        tell("cut");
        session.await(KeeperState.Disconnected);
        other.setData("/w/data", utf8("changed meanwhile"), -1);
        step("setWatches", "reconnect; /w/data has changed meanwhile");
        tell("release");
        session.await(KeeperState.SyncConnected);

        quiet();
        zk.addWatch("/w/child", watcher, AddWatchMode.PERSISTENT);
        zk.addWatch("/w/tree", watcher, AddWatchMode.PERSISTENT_RECURSIVE);
        tell("cut");
        session.await(KeeperState.Disconnected);
        other.create("/w/later", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("setWatches2", "reconnect; /w/later was created meanwhile");
        tell("release");
        session.await(KeeperState.SyncConnected);
        quiet();
        zk.close();
        other.close();
    }

    private static void sasl(String server) throws Exception {
        step("sasl", "new ZooKeeper(server, 30000, watcher), with DIGEST-MD5 for alice");
        Session session = new Session(server, TIMEOUT_MS);
        session.await(KeeperState.SaslAuthenticated);
        ZooKeeper zk = session.zk;
        quiet();
        zk.create("/s", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        step("whoAmI", "whoAmI() after SASL");
        zk.whoAmI();
        step("setACL", "setACL(/s, sasl alice all, -1)");
        zk.setACL("/s", acl(new ACL(Perms.ALL, new Id("sasl", "alice"))), -1);
        quiet();
        zk.close();
    }

    private static void reconfig(String server) throws Exception {
        quiet();
        ZooKeeperAdmin zk = (ZooKeeperAdmin) new Session(server, TIMEOUT_MS).zk;
        step("reconfig", "reconfigure(null, 9, null, -1): there is no server 9");
        zk.reconfigure((String) null, "9", null, -1, new Stat());
        step("reconfig", "reconfigure(null, null, null, 5)");
        failing(() -> zk.reconfigure((String) null, null, null, 5, new Stat()));
        quiet();
        zk.close();
    }

    /** A client, and the states it has gone through. */
    private static final class Session {
        final LinkedBlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        final ZooKeeper zk;

        Session(String server, int timeoutMs) throws Exception {
            zk = new ZooKeeperAdmin(server, timeoutMs, this::process);
            await(KeeperState.SyncConnected);
        }

        private void process(WatchedEvent event) {
            if (event.getType() == Watcher.Event.EventType.None) {
                states.add(event.getState());
            }
        }

        void await(KeeperState awaited) throws InterruptedException {
            KeeperState state;
            do {
                state = states.poll(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                if (state == null) {
                    throw new IllegalStateException("no " + awaited + " came");
                }
            } while (state != awaited);
        }
    }

    private static void failing(Operation operation) throws InterruptedException {
        try {
            operation.run();
        } catch (KeeperException expected) {
            return;
        }
        throw new IllegalStateException("this should have failed");
    }

    private static List<ACL> acl(ACL... entries) {
        return Arrays.asList(entries);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** What follows is an exchange of this operation. */
    private static void step(String operation, String title) {
        tell("step " + operation + " " + title);
    }

    /** What follows is not worth recording. */
    private static void quiet() {
        tell("quiet");
    }

    private static void tell(String line) {
        System.out.println(line);
        System.out.flush();
        try {
            if (RECORDER.readLine() == null) {
                System.exit(1);
            }
        } catch (IOException e) {
            System.exit(1);
        }
    }
}
