import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's locks, told what to do: {@code CuratorPeer <connect string> <session timeout in ms>
 * [namespace=NAME] [digest=USER:SECRET]}. With a digest, nobody else may do anything to its nodes. Each
 * line of the input is {@code <actor> <verb> <argument>…}; each actor is a thread of its own, with
 * locks of its own, and carries out what it is told in order. Each answer is a line
 * {@code <actor> <words>…}.
 *
 * <pre>
 * acquire KIND PATH MAX TAKE TIMEOUT_MS   ok NODE…, or timeout   (MAX and TAKE for a semaphore; a
 *                                                                 timeout below 0 waits for ever)
 * release                                 ok
 * read-too                                ok                     (a writer takes the read side as well)
 * release-write                           ok                     (and goes on as a reader only)
 * participants KIND PATH                  ok NODE…
 * loop KIND PATH MAX TAKE ROUNDS JOURNAL  ok                     (lines `enter TAKE` and `exit TAKE`)
 * work KIND PATH MAX ROUNDS PROOF         ok                     (each round proves that it holds)
 * count PATH VALUE                        ok                     (sets a SharedCount)
 * acquire-revocable KIND PATH             ok                     (mutex, read or write; later, each
 *                                                                 time its listener is called: revoked)
 * lease-data                              ok TEXT                (of the first permit held)
 * revoke NODE                             ok
 * </pre>
 *
 * KIND is mutex, read, write, semaphore-mutex, semaphore, latch or selector. A latch and a selector
 * have the actor's name as their id; to acquire one is to lead, and its participants are ids, the
 * leader's first. What goes wrong is answered {@code error <exception>}.
 */
public final class CuratorPeer {
    private final CuratorFramework client;
    private final Map<String, ExecutorService> actors = new ConcurrentHashMap<>();
    private final Map<String, Holder> holders = new ConcurrentHashMap<>();

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = client(args);
        client.start();
        client.blockUntilConnected();
        CuratorPeer peer = new CuratorPeer(client);
        System.out.println("ready");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            peer.actors
                    .computeIfAbsent(words[0], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> peer.answer(words));
        }
        // With the session go the locks.
        client.close();
        System.exit(0);
    }

    private static CuratorFramework client(String[] args) {
        CuratorFrameworkFactory.Builder builder =
                CuratorFrameworkFactory.builder()
                        .connectString(args[0])
                        .sessionTimeoutMs(Integer.parseInt(args[1]))
                        .connectionTimeoutMs(20_000)
                        .retryPolicy(new RetryOneTime(100));
        for (int n = 2; n < args.length; n++) {
            String[] option = args[n].split("=", 2);
            if (option[0].equals("namespace")) {
                builder.namespace(option[1]);
            } else {
                builder.authorization(option[0], option[1].getBytes(StandardCharsets.UTF_8));
                builder.aclProvider(new CreatorOnly());
            }
        }
        return builder.build();
    }

    private static final class CreatorOnly implements ACLProvider {
        @Override
        public List<ACL> getDefaultAcl() {
            return ZooDefs.Ids.CREATOR_ALL_ACL;
        }

        @Override
        public List<ACL> getAclForPath(String path) {
            return getDefaultAcl();
        }
    }

    private void answer(String[] words) {
        String said;
        try {
            said = String.join(" ", carryOut(words));
        } catch (Throwable thrown) {
            said = "error " + thrown.toString().replace('\n', ' ');
        }
        say(words[0], said);
    }

    private static void say(String actor, String said) {
        synchronized (System.out) {
            System.out.println(actor + " " + said);
        }
    }

    private List<String> carryOut(String[] words) throws Exception {
        List<String> said = new ArrayList<>(List.of("ok"));
        String actor = words[0];
        switch (words[1]) {
            case "acquire": {
                Holder holder = holder(words);
                List<String> nodes = holder.acquire(Long.parseLong(words[6]));
                if (nodes == null) {
                    return List.of("timeout");
                }
                holders.put(actor, holder);
                said.addAll(nodes);
                break;
            }
            case "release":
                holders.remove(actor).release();
                break;
            case "read-too":
                ((Sides) holders.get(actor)).lock.readLock().acquire();
                break;
            case "release-write": {
                InterProcessReadWriteLock lock = ((Sides) holders.get(actor)).lock;
                lock.writeLock().release();
                holders.put(actor, of(lock.readLock()));
                break;
            }
            case "participants":
                said.addAll(participants(words[2], words[3]));
                break;
            case "loop": {
                Holder holder = holder(words);
                for (int round = 0; round < Integer.parseInt(words[6]); round++) {
                    holder.acquire(-1);
                    append(words[7], "enter " + words[5]);
                    Thread.yield();
                    append(words[7], "exit " + words[5]);
                    holder.release();
                }
                break;
            }
            case "work": {
                Holder holder = holder(new String[] {actor, "", words[2], words[3], words[4], "1"});
                for (int round = 0; round < Integer.parseInt(words[5]); round++) {
                    holder.acquire(-1);
                    prove(words[2], Integer.parseInt(words[4]), words[6]);
                    holder.release();
                }
                break;
            }
            case "count": {
                int value = Integer.parseInt(words[3]);
                try (SharedCount count = new SharedCount(client, words[2], value)) {
                    count.start();
                    count.setCount(value);
                }
                break;
            }
            case "acquire-revocable": {
                InterProcessMutex lock = mutex(words[2], words[3]);
                lock.makeRevocable(asked -> say(actor, "revoked"));
                lock.acquire();
                holders.put(actor, of(lock));
                break;
            }
            case "revoke":
                Revoker.attemptRevoke(client, words[2]);
                break;
            case "lease-data":
                said.add(new String(((Permits) holders.get(actor)).data(), StandardCharsets.UTF_8));
                break;
            default:
                throw new IllegalArgumentException(words[1]);
        }
        return said;
    }

    /** What is, or extends, a mutex. */
    private InterProcessMutex mutex(String kind, String path) {
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return new InterProcessReadWriteLock(client, path).readLock();
            case "write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private interface Holder {
        /** The nodes, as far as Curator tells them; null after the timeout. */
        List<String> acquire(long timeoutMs) throws Exception;

        void release() throws Exception;
    }

    private Holder holder(String[] words) {
        String path = words[3];
        switch (words[2]) {
            case "mutex":
            case "read":
                return of(mutex(words[2], path));
            case "write":
                return new Sides(new InterProcessReadWriteLock(client, path));
            case "semaphore-mutex":
                return of(new InterProcessSemaphoreMutex(client, path));
            case "semaphore":
                return new Permits(
                        new InterProcessSemaphoreV2(client, path, Integer.parseInt(words[4])),
                        Integer.parseInt(words[5]));
            case "latch":
                return new Leadership(new LeaderLatch(client, path, words[0]));
            case "selector":
                return new Selection(client, path, words[0]);
            default:
                throw new IllegalArgumentException(words[2]);
        }
    }

    private static Holder of(InterProcessLock lock) {
        return new Single(lock);
    }

    private static class Single implements Holder {
        private final InterProcessLock single;

        Single(InterProcessLock single) {
            this.single = single;
        }

        @Override
        public List<String> acquire(long timeoutMs) throws Exception {
            if (timeoutMs < 0) {
                single.acquire();
                return List.of();
            }
            return single.acquire(timeoutMs, TimeUnit.MILLISECONDS) ? List.of() : null;
        }

        @Override
        public void release() throws Exception {
            single.release();
        }
    }

    /** A writer, who may become a reader. */
    private static final class Sides extends Single {
        final InterProcessReadWriteLock lock;

        Sides(InterProcessReadWriteLock lock) {
            super(lock.writeLock());
            this.lock = lock;
        }
    }

    private static final class Permits implements Holder {
        private final InterProcessSemaphoreV2 semaphore;
        private final int take;
        private Collection<Lease> leases;

        Permits(InterProcessSemaphoreV2 semaphore, int take) {
            this.semaphore = semaphore;
            this.take = take;
        }

        @Override
        public List<String> acquire(long timeoutMs) throws Exception {
            leases = timeoutMs < 0
                    ? semaphore.acquire(take)
                    : semaphore.acquire(take, timeoutMs, TimeUnit.MILLISECONDS);
            if (leases == null) {
                return null;
            }
            List<String> names = new ArrayList<>();
            for (Lease lease : leases) {
                names.add(lease.getNodeName());
            }
            return names;
        }

        byte[] data() throws Exception {
            return leases.iterator().next().getData();
        }

        @Override
        public void release() {
            semaphore.returnAll(leases);
        }
    }

    private static final class Leadership implements Holder {
        private final LeaderLatch latch;

        Leadership(LeaderLatch latch) {
            this.latch = latch;
        }

        @Override
        public List<String> acquire(long timeoutMs) throws Exception {
            latch.start();
            if (timeoutMs < 0) {
                latch.await();
                return List.of();
            }
            return latch.await(timeoutMs, TimeUnit.MILLISECONDS) ? List.of() : null;
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    /** Leads from the call of its listener until it is released. */
    private static final class Selection extends LeaderSelectorListenerAdapter implements Holder {
        private final LeaderSelector selector;
        private final CountDownLatch leads = new CountDownLatch(1);
        private final CountDownLatch resigns = new CountDownLatch(1);

        Selection(CuratorFramework client, String path, String id) {
            selector = new LeaderSelector(client, path, this);
            selector.setId(id);
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            leads.countDown();
            resigns.await();
        }

        @Override
        public List<String> acquire(long timeoutMs) throws Exception {
            selector.start();
            if (timeoutMs < 0) {
                leads.await();
                return List.of();
            }
            return leads.await(timeoutMs, TimeUnit.MILLISECONDS) ? List.of() : null;
        }

        @Override
        public void release() throws Exception {
            resigns.countDown();
            // To close the selector earlier would interrupt the deletion of its node.
            while (ids(selector.getParticipants()).contains(selector.getId())) {
                Thread.sleep(1);
            }
            selector.close();
        }
    }

    private static List<String> ids(Collection<Participant> participants) {
        List<String> ids = new ArrayList<>();
        for (Participant participant : participants) {
            if (!participant.getId().isEmpty()) {
                ids.add(participant.getId());
            }
        }
        return ids;
    }

    private Collection<String> participants(String kind, String path) throws Exception {
        if (kind.equals("latch")) {
            return ids(new LeaderLatch(client, path).getParticipants());
        }
        if (kind.equals("selector")) {
            return ids(new LeaderSelector(client, path, new Selection(client, path, "")).getParticipants());
        }
        if (kind.equals("semaphore")) {
            return new InterProcessSemaphoreV2(client, path, 1).getParticipantNodes();
        }
        return mutex(kind, path).getParticipantNodes();
    }

    /** Fails if anybody is inside who must not be; see {@code curator_fleet.rs}. */
    private void prove(String kind, int max, String proof) throws Exception {
        switch (kind) {
            case "read": {
                long before = client.checkExists().forPath(proof).getMzxid();
                Thread.yield();
                long after = client.checkExists().forPath(proof).getMzxid();
                if (before != after) {
                    throw new IllegalStateException("written while it was read");
                }
                break;
            }
            case "semaphore": {
                String inside =
                        client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(proof + "/in-");
                int count = client.getChildren().forPath(proof).size();
                if (count > max) {
                    throw new IllegalStateException(count + " are inside");
                }
                client.delete().forPath(inside);
                break;
            }
            default: {
                Stat stat = new Stat();
                byte[] data = client.getData().storingStatIn(stat).forPath(proof);
                int count = Integer.parseInt(new String(data, StandardCharsets.UTF_8));
                Thread.yield();
                byte[] next = Integer.toString(count + 1).getBytes(StandardCharsets.UTF_8);
                client.setData().withVersion(stat.getVersion()).forPath(proof, next);
            }
        }
    }

    private static void append(String journal, String line) throws Exception {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(Path.of(journal), bytes, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
