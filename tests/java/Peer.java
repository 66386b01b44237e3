import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/**
 * Base of the programs that run beside our tests: {@code PROGRAM <connect string> <session timeout in ms>}.
 * Each line of the input is {@code <actor> <verb> <argument>…}. Each actor is a thread, which carries out its
 * commands in order. Each answer is a line {@code <actor> <words>…}, or {@code <actor> error <exception>}.
 */
abstract class Peer {
    /** Stands for no timeout. */
    static final long FOREVER_MS = 3_600_000;

    final CuratorFramework client;
    private final Map<String, ExecutorService> actors = new HashMap<>();

    Peer(CuratorFrameworkFactory.Builder builder) {
        client = builder.build();
    }

    static CuratorFrameworkFactory.Builder builder(String[] args) {
        return CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .connectionTimeoutMs(20_000)
                .retryPolicy(new RetryOneTime(100));
    }

    /** Carries out a command: an actor, a verb and arguments. Returns the answer. */
    abstract String carryOut(String[] words) throws Exception;

    final void serve() throws Exception {
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            actors.computeIfAbsent(words[0], name -> Executors.newSingleThreadExecutor())
                    .execute(() -> say(words[0], answer(words)));
        }
        client.close();
        System.exit(0);
    }

    private String answer(String[] words) {
        try {
            return carryOut(words);
        } catch (Throwable thrown) {
            return "error " + thrown.toString().replace('\n', ' ');
        }
    }

    static void say(String actor, String said) {
        synchronized (System.out) {
            System.out.println(actor + " " + said);
        }
    }

    static String ok(Collection<?> words) {
        StringBuilder said = new StringBuilder("ok");
        words.forEach(word -> said.append(' ').append(word));
        return said.toString();
    }

    /** Returns the timeout of a command, which waits for ever if it is below 0. */
    static long timeout(String ms) {
        return ms.startsWith("-") ? FOREVER_MS : Long.parseLong(ms);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
