import java.util.Collection;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Curator's service discovery; see {@link Peer}. Each actor has one discovery, with one instance, one cache and
 * one provider.
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
public final class CuratorDiscovery extends Peer {
    private final JsonInstanceSerializer<Object> serializer =
            new JsonInstanceSerializer<>(Object.class);
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();

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

    private CuratorDiscovery(String[] args) {
        super(builder(args));
    }

    public static void main(String[] args) throws Exception {
        // Jackson looks for the class of a payload there. The threads of the actors inherit it.
        Thread.currentThread().setContextClassLoader(CuratorDiscovery.class.getClassLoader());
        new CuratorDiscovery(args).serve();
    }

    @Override
    String carryOut(String[] words) throws Exception {
        Actor actor = actors.computeIfAbsent(words[0], name -> new Actor());
        switch (words[1]) {
            case "open" -> {
                actor.discovery = ServiceDiscoveryBuilder.builder(Object.class)
                        .client(client)
                        .basePath(words[2])
                        .serializer(serializer)
                        .build();
                actor.discovery.start();
            }
            case "register" -> {
                Details details = new Details();
                details.zone = words[6];
                ServiceType type = ServiceType.valueOf(words[5]);
                actor.instance = instance(words[2], words[3], words[4], type, details);
                actor.discovery.registerService(actor.instance);
            }
            case "update" -> {
                ServiceInstance<Object> old = actor.instance;
                actor.instance = instance(
                        old.getName(), old.getId(), words[2], old.getServiceType(), old.getPayload());
                actor.discovery.updateService(actor.instance);
            }
            case "unregister" -> actor.discovery.unregisterService(actor.instance);
            case "names" -> {
                return ok(new TreeSet<>(actor.discovery.queryForNames()));
            }
            case "query" -> {
                return show(actor.discovery.queryForInstances(words[2]));
            }
            case "cache" -> {
                actor.cache = actor.discovery.serviceCacheBuilder().name(words[2]).build();
                actor.cache.start();
            }
            case "cached" -> {
                return show(actor.cache.getInstances());
            }
            case "provide" -> {
                actor.provider = actor.discovery.serviceProviderBuilder().serviceName(words[2]).build();
                actor.provider.start();
            }
            case "provided" -> {
                return "ok " + actor.provider.getInstance().getId();
            }
            case "rewrite" -> {
                byte[] data = client.getData().forPath(words[2]);
                return "ok " + text(serializer.serialize(serializer.deserialize(data)));
            }
            default -> throw new IllegalArgumentException(words[1]);
        }
        return "ok";
    }

    private static ServiceInstance<Object> instance(
            String name, String id, String port, ServiceType type, Object payload) throws Exception {
        return ServiceInstance.builder()
                .name(name)
                .id(id)
                .address("10.0.0.8")
                .port(Integer.parseInt(port))
                .serviceType(type)
                .payload(payload)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                .build();
    }

    private static String show(Collection<ServiceInstance<Object>> instances) {
        TreeSet<String> shown = new TreeSet<>();
        for (ServiceInstance<Object> instance : instances) {
            shown.add(instance.getId() + "=" + instance.buildUriSpec() + "=" + zone(instance.getPayload()));
        }
        return ok(shown);
    }

    private static Object zone(Object payload) {
        if (payload instanceof Details) {
            return ((Details) payload).zone;
        }
        return payload instanceof Map ? ((Map<?, ?>) payload).get("zone") : "-";
    }
}
