import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/**
 * Base of the programs that try reports about Curator: {@code PROGRAM HOST:PORT [REPORT...]}. Without names
 * of reports, a program tries all of its reports. Each line of the output is a report, and what was seen.
 */
abstract class Trial {
    static final int SESSION_TIMEOUT_MS = 4_000;

    final String server;
    final String root = "/curator-bugs-" + System.nanoTime();
    private final List<String> names;

    Trial(String[] args) {
        server = args[0];
        names = Arrays.asList(args).subList(1, args.length);
    }

    /** Returns a sentence about what was seen. */
    interface Attempt {
        String run() throws Exception;
    }

    interface Call<T> {
        T call() throws Exception;
    }

    /** A part of a trial. Its argument is the number of the round. */
    interface Round {
        boolean run(int number) throws Exception;
    }

    void report(String name, Attempt attempt) {
        if (!names.isEmpty() && !names.contains(name)) {
            return;
        }
        String result;
        try {
            result = attempt.run();
        } catch (Throwable thrown) {
            result = "error " + thrown;
        }
        System.out.println(name + ": " + result);
    }

    static <T> CompletableFuture<T> async(Call<T> call) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return call.call();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }, command -> new Thread(command).start());
    }

    /** Runs the rounds at the same time and returns the number of those that returned true. */
    static int count(int rounds, Round round) {
        List<CompletableFuture<Boolean>> running = new ArrayList<>();
        for (int number = 0; number < rounds; number++) {
            int current = number;
            running.add(async(() -> round.run(current)));
        }
        int count = 0;
        for (CompletableFuture<Boolean> each : running) {
            count += each.join() ? 1 : 0;
        }
        return count;
    }

    /** Waits until the condition holds, and returns false after the time. */
    static boolean within(long ms, Call<Boolean> condition) throws Exception {
        long end = System.nanoTime() + ms * 1_000_000;
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(2);
        }
        return true;
    }

    static CuratorFramework client(String address) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                address, SESSION_TIMEOUT_MS, 3_000, new RetryNTimes(20, 100));
        client.start();
        return client;
    }

    /** Ends the session for the client. The server keeps it, and its nodes, for a session timeout. */
    static void expire(CuratorFramework client) throws Exception {
        client.getZookeeperClient().getZooKeeper().getTestable().injectSessionExpiration();
    }

    boolean exists(String path, long ms) throws Exception {
        for (long waited = 0; waited < ms; waited += 50) {
            if (isThere(path)) {
                return true;
            }
            Thread.sleep(50);
        }
        return false;
    }

    boolean isThere(String path) throws Exception {
        try (CuratorFramework client = client(server)) {
            return client.checkExists().forPath(root + path) != null;
        }
    }

    int children(String path) throws Exception {
        try (CuratorFramework client = client(server)) {
            return client.getChildren().forPath(root + path).size();
        }
    }

    /** Returns the number of children that have ever been created. */
    int created(String path) throws Exception {
        try (CuratorFramework client = client(server)) {
            Stat stat = client.checkExists().forPath(root + path);
            return (stat.getCversion() + stat.getNumChildren()) / 2;
        }
    }

    String data(String path) throws Exception {
        try (CuratorFramework client = client(server)) {
            return new String(client.getData().forPath(root + path), StandardCharsets.UTF_8);
        }
    }

    static String fourLetters(String server, String word) throws IOException {
        String[] parts = server.split(":");
        try (Socket socket = new Socket(parts[0], Integer.parseInt(parts[1]))) {
            socket.getOutputStream().write(bytes(word));
            String text = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return text.trim().replace('\n', ' ');
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
