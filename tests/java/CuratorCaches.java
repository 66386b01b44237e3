import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.zookeeper.KeeperException;

/**
 * A CuratorCache; see {@link Peer}.
 *
 * <pre>
 * open PATH                 ok            (a cache, when it is initialized)
 * change PATH SEED COUNT    ok            (random changes below a path)
 * nodes                     ok NODE…      (of the cache: path=mzxid=data)
 * </pre>
 */
public final class CuratorCaches extends Peer {
    private CuratorCache cache;

    private CuratorCaches(String[] args) {
        super(builder(args));
    }

    public static void main(String[] args) throws Exception {
        new CuratorCaches(args).serve();
    }

    @Override
    String carryOut(String[] words) throws Exception {
        switch (words[1]) {
            case "open" -> open(words[2]);
            case "change" -> change(words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
            case "nodes" -> {
                return ok(cache.stream().map(CuratorCaches::text).collect(Collectors.toList()));
            }
            default -> throw new IllegalArgumentException(words[1]);
        }
        return "ok";
    }

    private void open(String path) throws Exception {
        cache = CuratorCache.build(client, path);
        CountDownLatch loaded = new CountDownLatch(1);
        cache.listenable()
                .addListener(CuratorCacheListener.builder().forInitialized(loaded::countDown).build());
        cache.start();
        loaded.await();
    }

    private void change(String root, long seed, int count) throws Exception {
        Random random = new Random(seed);
        for (int step = 0; step < count; step++) {
            String path = root + "/n" + random.nextInt(6);
            if (random.nextBoolean()) {
                path += "/m" + random.nextInt(4);
            }
            byte[] data = bytes("java-" + step);
            try {
                switch (random.nextInt(4)) {
                    case 0 -> client.setData().forPath(path, data);
                    case 1 -> client.delete().forPath(path);
                    default -> client.create().forPath(path, data);
                }
            } catch (KeeperException e) {
                // The other side, or an earlier step, was faster.
            }
        }
    }

    private static String text(ChildData node) {
        return node.getPath() + "=" + node.getStat().getMzxid() + "=" + text(node.getData());
    }
}
