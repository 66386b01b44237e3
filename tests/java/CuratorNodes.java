import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/**
 * Curator's persistent nodes and group members; see {@link Peer}. Each actor has one node or one member.
 *
 * <pre>
 * keep PATH DATA            ok            (a PersistentNode, ephemeral, once it is created)
 * keep-ttl PATH DATA MS     ok            (a PersistentTtlNode, once it is created)
 * join GROUP ID PAYLOAD     ok            (a GroupMember)
 * payload TEXT              ok            (of the member)
 * members                   ok ID=TEXT…   (sorted, as the member sees them)
 * close                     ok
 * </pre>
 */
public final class CuratorNodes extends Peer {
    private final Map<String, Closeable> kept = new ConcurrentHashMap<>();

    private CuratorNodes(String[] args) {
        super(builder(args));
    }

    public static void main(String[] args) throws Exception {
        new CuratorNodes(args).serve();
    }

    @Override
    String carryOut(String[] words) throws Exception {
        switch (words[1]) {
            case "keep" -> {
                PersistentNode node = new PersistentNode(
                        client, CreateMode.EPHEMERAL, false, words[2], bytes(words[3]), true);
                kept.put(words[0], node);
                node.start();
                return node.waitForInitialCreate(30, TimeUnit.SECONDS) ? "ok" : "timeout";
            }
            case "keep-ttl" -> {
                PersistentTtlNode node = new PersistentTtlNode(
                        client, words[2], Long.parseLong(words[4]), bytes(words[3]), true);
                kept.put(words[0], node);
                node.start();
                return node.waitForInitialCreate(30, TimeUnit.SECONDS) ? "ok" : "timeout";
            }
            case "join" -> {
                GroupMember member = new GroupMember(client, words[2], words[3], bytes(words[4]));
                kept.put(words[0], member);
                member.start();
            }
            case "payload" -> ((GroupMember) kept.get(words[0])).setThisData(bytes(words[2]));
            case "members" -> {
                List<String> said = new ArrayList<>();
                new TreeMap<>(((GroupMember) kept.get(words[0])).getCurrentMembers())
                        .forEach((id, data) -> said.add(id + "=" + text(data)));
                return ok(said);
            }
            case "close" -> kept.remove(words[0]).close();
            default -> throw new IllegalArgumentException(words[1]);
        }
        return "ok";
    }
}
