import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's counters and barriers, told what to do: {@code CuratorCounters <connect string> <session
 * timeout in ms>}. Each line of the input is {@code <actor> <verb> <argument>…}; each actor is a
 * thread of its own. Each answer is a line {@code <actor> <words>…}.
 *
 * <pre>
 * get PATH                      ok NUMBER      (a DistributedAtomicLong)
 * get-integer PATH              ok NUMBER      (a DistributedAtomicInteger)
 * add PATH DELTA                ok NUMBER, or failed
 * compare-and-set PATH OLD NEW  ok TRUE
 * initialize PATH NUMBER        ok TRUE
 * count PATH LOCK TIMES         ok             (adds 1, with a lock at LOCK after a conflict)
 * set PATH                      ok             (a DistributedBarrier)
 * remove PATH                   ok
 * wait PATH                     ok
 * enter PATH MEMBERS MS         ok, or timeout (a DistributedDoubleBarrier; below 0 it waits for ever)
 * leave MS                      ok, or timeout
 * events                        ok             (once watchers have run for all that happened before)
 * </pre>
 *
 * What goes wrong is answered {@code error <exception>}.
 */
public final class CuratorCounters {
    private final CuratorFramework client;
    private final Map<String, ExecutorService> actors = new ConcurrentHashMap<>();
    private final Map<String, DistributedDoubleBarrier> barriers = new ConcurrentHashMap<>();

    private CuratorCounters(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.builder()
                        .connectString(args[0])
                        .sessionTimeoutMs(Integer.parseInt(args[1]))
                        .connectionTimeoutMs(20_000)
                        .retryPolicy(new RetryOneTime(100))
                        .build();
        client.start();
        client.blockUntilConnected();
        CuratorCounters peer = new CuratorCounters(client);
        System.out.println("ready");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            peer.actors
                    .computeIfAbsent(words[0], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> peer.answer(words));
        }
        client.close();
        System.exit(0);
    }

    private void answer(String[] words) {
        String said;
        try {
            said = String.join(" ", carryOut(words));
        } catch (Throwable thrown) {
            said = "error " + thrown.toString().replace('\n', ' ');
        }
        synchronized (System.out) {
            System.out.println(words[0] + " " + said);
        }
    }

    private List<String> carryOut(String[] words) throws Exception {
        List<String> said = new ArrayList<>(List.of("ok"));
        switch (words[1]) {
            case "get":
                said.add(counter(words[2]).get().postValue().toString());
                break;
            case "get-integer": {
                DistributedAtomicInteger counter =
                        new DistributedAtomicInteger(client, words[2], retries());
                said.add(counter.get().postValue().toString());
                break;
            }
            case "add": {
                AtomicValue<Long> added = counter(words[2]).add(Long.parseLong(words[3]));
                if (!added.succeeded()) {
                    return List.of("failed");
                }
                said.add(added.postValue().toString());
                break;
            }
            case "compare-and-set": {
                long expected = Long.parseLong(words[3]);
                long next = Long.parseLong(words[4]);
                said.add("" + counter(words[2]).compareAndSet(expected, next).succeeded());
                break;
            }
            case "initialize":
                said.add("" + counter(words[2]).initialize(Long.parseLong(words[3])));
                break;
            case "count": {
                PromotedToLock promotion =
                        PromotedToLock.builder()
                                .lockPath(words[3])
                                .retryPolicy(retries())
                                .timeout(30, TimeUnit.SECONDS)
                                .build();
                DistributedAtomicLong counter =
                        new DistributedAtomicLong(client, words[2], new RetryOneTime(1), promotion);
                for (int n = 0; n < Integer.parseInt(words[4]); n++) {
                    while (!counter.increment().succeeded()) {
                        Thread.yield();
                    }
                }
                break;
            }
            case "set":
                new DistributedBarrier(client, words[2]).setBarrier();
                break;
            case "remove":
                new DistributedBarrier(client, words[2]).removeBarrier();
                break;
            case "wait":
                new DistributedBarrier(client, words[2]).waitOnBarrier();
                break;
            case "enter": {
                DistributedDoubleBarrier barrier =
                        new DistributedDoubleBarrier(client, words[2], Integer.parseInt(words[3]));
                barriers.put(words[0], barrier);
                long ms = Long.parseLong(words[4]);
                if (ms < 0) {
                    barrier.enter();
                } else if (!barrier.enter(ms, TimeUnit.MILLISECONDS)) {
                    return List.of("timeout");
                }
                break;
            }
            case "leave": {
                long ms = Long.parseLong(words[2]);
                DistributedDoubleBarrier barrier = barriers.get(words[0]);
                if (ms < 0) {
                    barrier.leave();
                } else if (!barrier.leave(ms, TimeUnit.MILLISECONDS)) {
                    return List.of("timeout");
                }
                break;
            }
            case "events": {
                // The reply follows the events on the connection, and its callback their watchers, which
                // hand over to the thread of runSafe.
                CountDownLatch replied = new CountDownLatch(1);
                client.checkExists()
                        .inBackground((ignored, reply) -> replied.countDown())
                        .forPath("/");
                replied.await();
                client.runSafe(() -> {}).get();
                break;
            }
            default:
                throw new IllegalArgumentException(words[1]);
        }
        return said;
    }

    private DistributedAtomicLong counter(String path) {
        return new DistributedAtomicLong(client, path, retries());
    }

    private static ExponentialBackoffRetry retries() {
        return new ExponentialBackoffRetry(5, 20);
    }
}
