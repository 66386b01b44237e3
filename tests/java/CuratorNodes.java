import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;

/**
 * Curator's persistent nodes and group members, told what to do: {@code CuratorNodes <connect string>
 * <session timeout in ms>}. Each line of the input is {@code <actor> <verb> <argument>…}, and each is
 * answered by a line {@code <actor> <words>…} before the next one is read. Each actor has one node or
 * one member.
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
public final class CuratorNodes {
    private final CuratorFramework client;
    private final Map<String, Closeable> kept = new HashMap<>();

    private CuratorNodes(CuratorFramework client) {
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
        CuratorNodes nodes = new CuratorNodes(client);
        System.out.println("ready");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = nodes.carryOut(words);
            } catch (Exception e) {
                answer = "error " + e;
            }
            System.out.println(words[0] + " " + answer);
        }
    }

    private String carryOut(String[] words) throws Exception {
        switch (words[1]) {
            case "keep": {
                PersistentNode node = new PersistentNode(
                        client, CreateMode.EPHEMERAL, false, words[2], bytes(words[3]), true);
                kept.put(words[0], node);
                node.start();
                return node.waitForInitialCreate(30, TimeUnit.SECONDS) ? "ok" : "timeout";
            }
            case "keep-ttl": {
                PersistentTtlNode node = new PersistentTtlNode(
                        client, words[2], Long.parseLong(words[4]), bytes(words[3]), true);
                kept.put(words[0], node);
                node.start();
                return node.waitForInitialCreate(30, TimeUnit.SECONDS) ? "ok" : "timeout";
            }
            case "join": {
                GroupMember member = new GroupMember(client, words[2], words[3], bytes(words[4]));
                kept.put(words[0], member);
                member.start();
                return "ok";
            }
            case "payload":
                ((GroupMember) kept.get(words[0])).setThisData(bytes(words[2]));
                return "ok";
            case "members": {
                StringBuilder said = new StringBuilder("ok");
                GroupMember member = (GroupMember) kept.get(words[0]);
                new TreeMap<>(member.getCurrentMembers()).forEach((id, data) ->
                        said.append(' ').append(id).append('=')
                                .append(new String(data, StandardCharsets.UTF_8)));
                return said.toString();
            }
            case "close":
                kept.remove(words[0]).close();
                return "ok";
            default:
                return "error unknown verb";
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
