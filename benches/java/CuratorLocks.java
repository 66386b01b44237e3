import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's locks, as a contestant of {@code cargo xtask bench handoff}; {@code contest.rs} tells what
 * the lines on standard input and output mean.
 */
public final class CuratorLocks {
    private static final int SESSION_TIMEOUT_MS = 40_000;

    private final String kind;
    private final String path;
    private final int waiters;
    private final long holdUs;
    private final int holds;
    private final int permits;
    private final boolean again;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private final AtomicInteger done = new AtomicInteger();
    private final CountDownLatch enough = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<String> lines = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = new CuratorLocks(line.split(" ")).run();
            } catch (Throwable thrown) {
                answer = "failed " + thrown.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    private CuratorLocks(String[] words) throws Exception {
        kind = words[1];
        path = words[3];
        waiters = Integer.parseInt(words[4]);
        holdUs = Long.parseLong(words[6]);
        holds = Integer.parseInt(words[7]);
        permits = Integer.parseInt(words[8]);
        again = words[9].equals("1");
        for (int session = 0; session < Integer.parseInt(words[5]); session++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    words[2], SESSION_TIMEOUT_MS, 15_000, new ExponentialBackoffRetry(50, 10));
            client.start();
            clients.add(client);
        }
        for (CuratorFramework client : clients) {
            client.blockUntilConnected();
        }
    }

    private String run() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int waiter = 0; waiter < waiters; waiter++) {
            int number = waiter;
            Thread thread = new Thread(() -> {
                try {
                    contend(number);
                } catch (Throwable thrown) {
                    // After the end of the contest waiting is interrupted and clients are closed.
                    if (enough.getCount() > 0) {
                        failure.compareAndSet(null, thrown);
                        enough.countDown();
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        enough.await();
        String answer;
        synchronized (lines) {
            answer = failure.get() == null
                    ? String.join("\n", lines) + "\ndone"
                    : "failed " + failure.get().toString().replace('\n', ' ');
        }
        for (Thread thread : threads) {
            thread.interrupt();
        }
        for (Thread thread : threads) {
            thread.join(2_000);
        }
        for (CuratorFramework client : clients) {
            client.close();
        }
        return answer;
    }

    private void contend(int waiter) throws Exception {
        CuratorFramework client = clients.get(waiter % clients.size());
        Numbered mutex = new Numbered(client, path);
        InterProcessReadWriteLock readWrite = new InterProcessReadWriteLock(client, path);
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, permits);
        for (int turn = 0; enough.getCount() > 0; turn++) {
            boolean shared = kind.equals("read-write") && (waiter + 7 * turn) % 10 != 0;
            InterProcessMutex side = shared ? readWrite.readLock() : readWrite.writeLock();
            Lease lease = null;
            String node = null;
            long call = System.nanoTime();
            switch (kind) {
                case "read-write":
                    side.acquire();
                    break;
                case "semaphore":
                    lease = semaphore.acquire();
                    break;
                default:
                    mutex.acquire();
            }
            long owner = System.nanoTime();
            switch (kind) {
                case "read-write":
                    node = nodeOf(side);
                    break;
                case "semaphore":
                    break;
                default:
                    node = mutex.node();
            }
            if (holdUs > 0) {
                Thread.sleep(holdUs / 1_000, (int) (holdUs % 1_000) * 1_000);
            }
            long release = System.nanoTime();
            switch (kind) {
                case "read-write":
                    side.release();
                    break;
                case "semaphore":
                    semaphore.returnLease(lease);
                    break;
                default:
                    mutex.release();
            }
            long released = System.nanoTime();
            report(call, owner, release, released, node, shared);
            if (!again) {
                return;
            }
        }
    }

    private void report(
            long call, long owner, long release, long released, String node, boolean shared) {
        long order = node == null ? -1 : Long.parseLong(node.substring(node.length() - 10));
        synchronized (lines) {
            lines.add("hold " + call + " " + owner + " " + release + " " + released + " " + order
                    + (shared ? " 1" : " 0"));
        }
        if (done.incrementAndGet() >= holds) {
            enough.countDown();
        }
    }

    /** The node is known to subclasses only; those of the sides of a read-write lock are Curator's. */
    private static String nodeOf(InterProcessMutex side) throws Exception {
        java.lang.reflect.Method method =
                InterProcessMutex.class.getDeclaredMethod("getLockPath");
        method.setAccessible(true);
        return (String) method.invoke(side);
    }

    private static final class Numbered extends InterProcessMutex {
        Numbered(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }
}
