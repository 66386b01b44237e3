import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Curator's service discovery, told what to do: {@code CuratorDiscovery <connect string> <session timeout
 * in ms>}. Each line of the input is {@code <actor> <verb> <argument>…}, and each is answered by a line
 * {@code <actor> <words>…} before the next one is read. Each actor has one discovery, with one instance, one
 * cache and one provider.
 *
 * <pre>
 * open BASE                          ok
 * register NAME ID PORT TYPE ZONE    ok            (address 10.0.0.8; the payload is a Details)
 * update PORT                        ok            (of the instance)
 * unregister                         ok
 * names                              ok NAME…      (sorted, as the next ones)
 * query NAME                         ok ID=URI=ZONE…
 * cache NAME                         ok            (opens the cache)
 * cached                             ok ID=URI=ZONE…
 * provide NAME                       ok            (opens the provider)
 * provided                           ok ID
 * rewrite PATH                       ok JSON       (reads the node and writes the instance again)
 * </pre>
 *
 * The zone is that of a Details, of a map, or - without a payload.
 */
public final class CuratorDiscovery {
    private final CuratorFramework client;
    private final JsonInstanceSerializer<Object> serializer =
            new JsonInstanceSerializer<>(Object.class);
    private final Map<String, Actor> actors = new HashMap<>();

    /** A payload, whose class the JSON names. */
    public static final class Details {
        public String zone;
        public int weight = 7;
    }

    private static final class Actor {
        ServiceDiscovery<Object> discovery;
        ServiceInstance<Object> instance;
        ServiceCache<Object> cache;
        ServiceProvider<Object> provider;
    }

    private CuratorDiscovery(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        // Jackson looks for the class of a payload there.
        Thread.currentThread().setContextClassLoader(CuratorDiscovery.class.getClassLoader());
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .retryPolicy(new RetryOneTime(100))
                .build();
        client.start();
        client.blockUntilConnected();
        CuratorDiscovery peer = new CuratorDiscovery(client);
        System.out.println("ready");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = peer.carryOut(words);
            } catch (Exception e) {
                answer = "error " + e.toString().replace('\n', ' ');
            }
            System.out.println(words[0] + " " + answer);
        }
    }

    private String carryOut(String[] words) throws Exception {
        Actor actor = actors.computeIfAbsent(words[0], name -> new Actor());
        switch (words[1]) {
            case "open":
                actor.discovery = ServiceDiscoveryBuilder.builder(Object.class)
                        .client(client)
                        .basePath(words[2])
                        .serializer(serializer)
                        .build();
                actor.discovery.start();
                return "ok";
            case "register": {
                Details details = new Details();
                details.zone = words[6];
                actor.instance = builder()
                        .name(words[2])
                        .id(words[3])
                        .address("10.0.0.8")
                        .port(Integer.parseInt(words[4]))
                        .serviceType(ServiceType.valueOf(words[5]))
                        .payload(details)
                        .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                        .build();
                actor.discovery.registerService(actor.instance);
                return "ok";
            }
            case "update": {
                ServiceInstance<Object> old = actor.instance;
                actor.instance = builder()
                        .name(old.getName())
                        .id(old.getId())
                        .address(old.getAddress())
                        .port(Integer.parseInt(words[2]))
                        .serviceType(old.getServiceType())
                        .payload(old.getPayload())
                        .uriSpec(old.getUriSpec())
                        .build();
                actor.discovery.updateService(actor.instance);
                return "ok";
            }
            case "unregister":
                actor.discovery.unregisterService(actor.instance);
                return "ok";
            case "names":
                return list(new TreeSet<>(actor.discovery.queryForNames()));
            case "query":
                return show(actor.discovery.queryForInstances(words[2]));
            case "cache":
                actor.cache = actor.discovery.serviceCacheBuilder().name(words[2]).build();
                actor.cache.start();
                return "ok";
            case "cached":
                return show(actor.cache.getInstances());
            case "provide":
                actor.provider = actor.discovery.serviceProviderBuilder().serviceName(words[2]).build();
                actor.provider.start();
                return "ok";
            case "provided":
                return "ok " + actor.provider.getInstance().getId();
            case "rewrite": {
                byte[] data = client.getData().forPath(words[2]);
                byte[] again = serializer.serialize(serializer.deserialize(data));
                return "ok " + new String(again, StandardCharsets.UTF_8);
            }
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    private static ServiceInstanceBuilder<Object> builder() throws Exception {
        return ServiceInstance.builder();
    }

    private static String show(Collection<ServiceInstance<Object>> instances) {
        TreeSet<String> shown = new TreeSet<>();
        for (ServiceInstance<Object> instance : instances) {
            shown.add(instance.getId() + "=" + instance.buildUriSpec() + "=" + zone(instance.getPayload()));
        }
        return list(shown);
    }

    private static Object zone(Object payload) {
        if (payload instanceof Details) {
            return ((Details) payload).zone;
        }
        return payload instanceof Map ? ((Map<?, ?>) payload).get("zone") : "-";
    }

    private static String list(Collection<String> words) {
        return words.isEmpty() ? "ok" : "ok " + String.join(" ", words);
    }
}
