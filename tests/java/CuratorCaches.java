import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;

/**
 * A CuratorCache, told what to do: {@code CuratorCaches <connect string> <session timeout in ms>}.
 * Each line of the input is {@code <actor> <verb> <argument>…}, and each is answered by a line
 * {@code <actor> <words>…} before the next one is read.
 *
 * <pre>
 * open PATH                 ok            (a cache, when it is initialized)
 * change PATH SEED COUNT    ok            (random changes below a path)
 * nodes                     ok NODE…      (of the cache: path=mzxid=data)
 * </pre>
 */
public final class CuratorCaches {
    private final CuratorFramework client;
    private CuratorCache cache;

    private CuratorCaches(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .retryPolicy(new RetryOneTime(100))
                .build();
        client.start();
        client.blockUntilConnected();
        CuratorCaches caches = new CuratorCaches(client);
        System.out.println("ready");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = caches.carryOut(words);
            } catch (Exception e) {
                answer = "error " + e;
            }
            System.out.println(words[0] + " " + answer);
        }
    }

    private String carryOut(String[] words) throws Exception {
        switch (words[1]) {
            case "open":
                open(words[2]);
                return "ok";
            case "change":
                change(words[2], new Random(Long.parseLong(words[3])), Integer.parseInt(words[4]));
                return "ok";
            case "nodes":
                return "ok" + cache.stream().map(CuratorCaches::text).collect(Collectors.joining());
            default:
                return "error unknown verb";
        }
    }

    private void open(String path) throws Exception {
        cache = CuratorCache.build(client, path);
        CountDownLatch loaded = new CountDownLatch(1);
        CuratorCacheListener listener =
                CuratorCacheListener.builder().forInitialized(loaded::countDown).build();
        cache.listenable().addListener(listener);
        cache.start();
        loaded.await();
    }

    private void change(String root, Random random, int count) throws Exception {
        for (int step = 0; step < count; step++) {
            String path = root + "/n" + random.nextInt(6);
            if (random.nextBoolean()) {
                path += "/m" + random.nextInt(4);
            }
            byte[] data = ("java-" + step).getBytes(StandardCharsets.UTF_8);
            try {
                switch (random.nextInt(4)) {
                    case 0:
                        client.setData().forPath(path, data);
                        break;
                    case 1:
                        client.delete().forPath(path);
                        break;
                    default:
                        client.create().forPath(path, data);
                }
            } catch (KeeperException e) {
                // The other side, or an earlier step, was faster.
            }
        }
    }

    private static String text(ChildData node) {
        String data = new String(node.getData(), StandardCharsets.UTF_8);
        return " " + node.getPath() + "=" + node.getStat().getMzxid() + "=" + data;
    }
}
