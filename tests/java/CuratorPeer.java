import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
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
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's locks; see {@link Peer}. Further arguments of the program are {@code [namespace=NAME]
 * [digest=USER:SECRET]}. With a digest, nobody else may do anything to its nodes.
 *
 * <pre>
 * acquire KIND PATH MAX TAKE TIMEOUT_MS   ok NODE…, or timeout   (MAX and TAKE for a semaphore; a
 *                                                                 timeout below 0 waits for ever)
 * release                                 ok
 * read-too                                ok                     (a writer takes the read side as well)
 * release-write                           ok                     (and goes on as a reader only)
 * participants KIND PATH                  ok NODE…
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
 * leader's first.
 */
public final class CuratorPeer extends Peer {
    private final Map<String, Holder> holders = new ConcurrentHashMap<>();

    private CuratorPeer(String[] args) {
        super(configured(args));
    }

    public static void main(String[] args) throws Exception {
        new CuratorPeer(args).serve();
    }

    private static CuratorFrameworkFactory.Builder configured(String[] args) {
        CuratorFrameworkFactory.Builder builder = builder(args);
        for (int n = 2; n < args.length; n++) {
            String[] option = args[n].split("=", 2);
            if (option[0].equals("namespace")) {
                builder.namespace(option[1]);
            } else {
                builder.authorization(option[0], bytes(option[1]));
                builder.aclProvider(new CreatorOnly());
            }
        }
        return builder;
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

    @Override
    String carryOut(String[] words) throws Exception {
        String actor = words[0];
        switch (words[1]) {
            case "acquire" -> {
                Holder holder = holder(words);
                if (!holder.acquire(timeout(words[6]))) {
                    return "timeout";
                }
                holders.put(actor, holder);
                return ok(holder.nodes());
            }
            case "release" -> holders.remove(actor).release();
            case "read-too" -> ((Sides) holders.get(actor)).lock.readLock().acquire();
            case "release-write" -> {
                InterProcessReadWriteLock lock = ((Sides) holders.get(actor)).lock;
                lock.writeLock().release();
                holders.put(actor, new Single(lock.readLock()));
            }
            case "participants" -> {
                return ok(participants(words[2], words[3]));
            }
            case "work" -> {
                Holder holder = holder(new String[] {actor, "", words[2], words[3], words[4], "1"});
                for (int round = 0; round < Integer.parseInt(words[5]); round++) {
                    holder.acquire(FOREVER_MS);
                    prove(words[2], Integer.parseInt(words[4]), words[6]);
                    holder.release();
                }
            }
            case "count" -> {
                int value = Integer.parseInt(words[3]);
                try (SharedCount count = new SharedCount(client, words[2], value)) {
                    count.start();
                    count.setCount(value);
                }
            }
            case "acquire-revocable" -> {
                InterProcessMutex lock = mutex(words[2], words[3]);
                lock.makeRevocable(asked -> say(actor, "revoked"));
                lock.acquire();
                holders.put(actor, new Single(lock));
            }
            case "revoke" -> Revoker.attemptRevoke(client, words[2]);
            case "lease-data" -> {
                return "ok " + text(((Permits) holders.get(actor)).leases.iterator().next().getData());
            }
            default -> throw new IllegalArgumentException(words[1]);
        }
        return "ok";
    }

    /** Returns what is, or extends, a mutex. */
    private InterProcessMutex mutex(String kind, String path) {
        return switch (kind) {
            case "mutex" -> new InterProcessMutex(client, path);
            case "read" -> new InterProcessReadWriteLock(client, path).readLock();
            case "write" -> new InterProcessReadWriteLock(client, path).writeLock();
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private interface Holder {
        boolean acquire(long timeoutMs) throws Exception;

        /** The nodes, as far as Curator tells them. */
        default List<String> nodes() {
            return List.of();
        }

        void release() throws Exception;
    }

    private Holder holder(String[] words) {
        String path = words[3];
        return switch (words[2]) {
            case "mutex", "read" -> new Single(mutex(words[2], path));
            case "write" -> new Sides(new InterProcessReadWriteLock(client, path));
            case "semaphore-mutex" -> new Single(new InterProcessSemaphoreMutex(client, path));
            case "semaphore" -> new Permits(
                    new InterProcessSemaphoreV2(client, path, Integer.parseInt(words[4])),
                    Integer.parseInt(words[5]));
            case "latch" -> new Leadership(new LeaderLatch(client, path, words[0]));
            case "selector" -> new Selection(client, path, words[0]);
            default -> throw new IllegalArgumentException(words[2]);
        };
    }

    private static class Single implements Holder {
        private final InterProcessLock single;

        Single(InterProcessLock single) {
            this.single = single;
        }

        @Override
        public boolean acquire(long timeoutMs) throws Exception {
            return single.acquire(timeoutMs, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            single.release();
        }
    }

    /** A writer, which may become a reader. */
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
        Collection<Lease> leases;

        Permits(InterProcessSemaphoreV2 semaphore, int take) {
            this.semaphore = semaphore;
            this.take = take;
        }

        @Override
        public boolean acquire(long timeoutMs) throws Exception {
            leases = semaphore.acquire(take, timeoutMs, TimeUnit.MILLISECONDS);
            return leases != null;
        }

        @Override
        public List<String> nodes() {
            return leases.stream().map(Lease::getNodeName).collect(Collectors.toList());
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
        public boolean acquire(long timeoutMs) throws Exception {
            latch.start();
            return latch.await(timeoutMs, TimeUnit.MILLISECONDS);
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
        public boolean acquire(long timeoutMs) throws Exception {
            selector.start();
            return leads.await(timeoutMs, TimeUnit.MILLISECONDS);
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
        return participants.stream()
                .map(Participant::getId)
                .filter(id -> !id.isEmpty())
                .collect(Collectors.toList());
    }

    private Collection<String> participants(String kind, String path) throws Exception {
        return switch (kind) {
            case "latch" -> ids(new LeaderLatch(client, path).getParticipants());
            case "selector" -> ids(new Selection(client, path, "").selector.getParticipants());
            case "semaphore" -> new InterProcessSemaphoreV2(client, path, 1).getParticipantNodes();
            default -> mutex(kind, path).getParticipantNodes();
        };
    }

    /** Fails if anybody is inside who must not be; see {@code curator/fleet.rs}. */
    private void prove(String kind, int max, String proof) throws Exception {
        switch (kind) {
            case "read" -> {
                long before = client.checkExists().forPath(proof).getMzxid();
                Thread.yield();
                if (before != client.checkExists().forPath(proof).getMzxid()) {
                    throw new IllegalStateException("written while it was read");
                }
            }
            case "semaphore" -> {
                String inside =
                        client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(proof + "/in-");
                int count = client.getChildren().forPath(proof).size();
                if (count > max) {
                    throw new IllegalStateException(count + " are inside");
                }
                client.delete().forPath(inside);
            }
            default -> {
                Stat stat = new Stat();
                int count = Integer.parseInt(text(client.getData().storingStatIn(stat).forPath(proof)));
                Thread.yield();
                client.setData().withVersion(stat.getVersion()).forPath(proof, bytes("" + (count + 1)));
            }
        }
    }
}
