import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's counters and barriers; see {@link Peer}.
 *
 * <pre>
 * get PATH                      ok NUMBER      (a DistributedAtomicLong)
 * get-integer PATH              ok NUMBER      (a DistributedAtomicInteger)
 * add PATH DELTA                ok NUMBER, or failed
 * compare-and-set PATH OLD NEW  ok TRUE
 * initialize PATH NUMBER        ok TRUE
 * count PATH LOCK TIMES         ok             (adds 1, with a lock at LOCK after a conflict)
 * set PATH                      ok             (a DistributedBarrier)
 * wait PATH                     ok
 * enter PATH MEMBERS MS         ok, or timeout (a DistributedDoubleBarrier; below 0 it waits for ever)
 * leave MS                      ok, or timeout
 * </pre>
 */
public final class CuratorCounters extends Peer {
    private final Map<String, DistributedDoubleBarrier> barriers = new ConcurrentHashMap<>();

    private CuratorCounters(String[] args) {
        super(builder(args));
    }

    public static void main(String[] args) throws Exception {
        new CuratorCounters(args).serve();
    }

    @Override
    String carryOut(String[] words) throws Exception {
        switch (words[1]) {
            case "get" -> {
                return "ok " + counter(words[2]).get().postValue();
            }
            case "get-integer" -> {
                return "ok " + new DistributedAtomicInteger(client, words[2], retries()).get().postValue();
            }
            case "add" -> {
                AtomicValue<Long> added = counter(words[2]).add(Long.parseLong(words[3]));
                return added.succeeded() ? "ok " + added.postValue() : "failed";
            }
            case "compare-and-set" -> {
                long next = Long.parseLong(words[4]);
                return "ok " + counter(words[2]).compareAndSet(Long.parseLong(words[3]), next).succeeded();
            }
            case "initialize" -> {
                return "ok " + counter(words[2]).initialize(Long.parseLong(words[3]));
            }
            case "count" -> count(words[2], words[3], Integer.parseInt(words[4]));
            case "set" -> new DistributedBarrier(client, words[2]).setBarrier();
            case "wait" -> new DistributedBarrier(client, words[2]).waitOnBarrier();
            case "enter" -> {
                var barrier = new DistributedDoubleBarrier(client, words[2], Integer.parseInt(words[3]));
                barriers.put(words[0], barrier);
                return barrier.enter(timeout(words[4]), TimeUnit.MILLISECONDS) ? "ok" : "timeout";
            }
            case "leave" -> {
                DistributedDoubleBarrier barrier = barriers.get(words[0]);
                return barrier.leave(timeout(words[2]), TimeUnit.MILLISECONDS) ? "ok" : "timeout";
            }
            default -> throw new IllegalArgumentException(words[1]);
        }
        return "ok";
    }

    private void count(String path, String lock, int times) throws Exception {
        PromotedToLock promotion = PromotedToLock.builder()
                .lockPath(lock)
                .retryPolicy(retries())
                .timeout(30, TimeUnit.SECONDS)
                .build();
        var counter = new DistributedAtomicLong(client, path, new RetryOneTime(1), promotion);
        for (int n = 0; n < times; n++) {
            while (!counter.increment().succeeded()) {
                Thread.yield();
            }
        }
    }

    private DistributedAtomicLong counter(String path) {
        return new DistributedAtomicLong(client, path, retries());
    }

    private static ExponentialBackoffRetry retries() {
        return new ExponentialBackoffRetry(5, 20);
    }
}
