import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.zookeeper.data.Stat;

/** Reports about Curator's service discovery. See {@link Trial}. */
public final class CuratorDiscoveryBugs extends Trial {
    private CuratorDiscoveryBugs(String[] args) {
        super(args);
    }

    public static void main(String[] args) throws Exception {
        CuratorDiscoveryBugs bugs = new CuratorDiscoveryBugs(args);
        bugs.report("CURATOR-146", bugs::dataAfterAReconnect);
        bugs.report("CURATOR-181", bugs::updateDuringAnOutage);
        bugs.report("CURATOR-164", bugs::unregisterAtAReconnect);
        bugs.report("CURATOR-175", bugs::noServerAtStart);
        bugs.report("CURATOR-320", bugs::nodesOfReconnects);
        bugs.report("CURATOR-617", bugs::unregisterDuringAnOutage);
        bugs.report("CURATOR-705", bugs::startedCache);
        System.exit(0);
    }

    /** An instance is changed, in one of two ways, before its client reconnects or has a new session. */
    private String dataAfterAReconnect() throws Exception {
        StringBuilder result = new StringBuilder();
        for (int round = 0; round < 4; round++) {
            boolean isUpdate = round < 2;
            boolean isExpiry = round % 2 == 1;
            String base = "/146-" + round;
            try (FaultyProxy proxy = new FaultyProxy(server);
                    CuratorFramework client = client(proxy.address());
                    ServiceDiscovery<Void> discovery = discovery(client, base, null)) {
                discovery.start();
                discovery.registerService(instance("a", 8080));
                if (isUpdate) {
                    discovery.updateService(instance("a", 9090));
                } else {
                    discovery.registerService(instance("a", 9090));
                }
                if (isExpiry) {
                    expire(client);
                } else {
                    proxy.cut();
                }
                Thread.sleep(2 * SESSION_TIMEOUT_MS);
                result.append(isUpdate ? "updateService" : "second registerService");
                result.append(isExpiry ? ", next session: port " : ", reconnect: port ");
                result.append(port(base) + "; ");
            }
        }
        return result.toString();
    }

    private String updateDuringAnOutage() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                ServiceDiscovery<Void> discovery = discovery(client, "/181", null)) {
            discovery.start();
            discovery.registerService(instance("a", 8080));
            proxy.isDown.set(true);
            proxy.cut();
            CompletableFuture<Boolean> updating = async(() -> {
                discovery.updateService(instance("a", 9090));
                return true;
            });
            Thread.sleep(3 * SESSION_TIMEOUT_MS);
            proxy.isDown.set(false);
            String result;
            try {
                result = "returns " + updating.get(20, TimeUnit.SECONDS);
            } catch (Exception error) {
                result = "fails with " + error.getCause();
            }
            Thread.sleep(2 * SESSION_TIMEOUT_MS);
            return "updateService " + result + ", then port " + port("/181");
        }
    }

    /** The last instance is unregistered when the one before it has been registered after a reconnect. */
    private String unregisterAtAReconnect() throws Exception {
        int left = count(5, round -> {
            String base = "/164-" + round;
            String before = root + base + "/web/3";
            try (FaultyProxy proxy = new FaultyProxy(server);
                    CuratorFramework operator = client(server);
                    CuratorFramework client = client(proxy.address());
                    ServiceDiscovery<Void> discovery = discovery(client, base, null)) {
                client.blockUntilConnected();
                discovery.start();
                for (int number = 0; number < 5; number++) {
                    discovery.registerService(instance("" + number, 8080));
                }
                Thread.sleep(500);
                long old = operator.checkExists().forPath(before).getCzxid();
                proxy.replyDelayMs.set(100);
                proxy.cut();
                within(10_000, () -> {
                    Stat stat = operator.checkExists().forPath(before);
                    return stat != null && stat.getCzxid() != old;
                });
                discovery.unregisterService(instance("4", 8080));
                Thread.sleep(2_000);
                return isThere(base + "/web/4");
            }
        });
        return "in " + left + " of 5 rounds, the instance is registered 2 s after unregisterService";
    }

    private String noServerAtStart() throws Exception {
        StringBuilder result = new StringBuilder();
        for (boolean isInBuilder : new boolean[] {true, false}) {
            String base = "/175-" + isInBuilder;
            try (FaultyProxy proxy = new FaultyProxy(server)) {
                proxy.isDown.set(true);
                CuratorFramework client = client(proxy.address());
                ServiceInstance<Void> instance = instance("a", 8080);
                ServiceDiscovery<Void> discovery = discovery(client, base, isInBuilder ? instance : null);
                String outcome = "returns";
                try {
                    discovery.start();
                    if (!isInBuilder) {
                        discovery.registerService(instance);
                    }
                } catch (Exception error) {
                    outcome = "fails with " + error.getClass().getSimpleName();
                }
                proxy.isDown.set(false);
                boolean isRegistered = exists(base + "/web/a", 20_000);
                result.append(isInBuilder ? "start " : "registerService ").append(outcome);
                result.append(", then the instance is registered: " + isRegistered + "; ");
                client.close();
            }
        }
        return result.toString();
    }

    private String nodesOfReconnects() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                ServiceDiscovery<Void> discovery = discovery(client, "/320", null)) {
            discovery.start();
            for (int number = 0; number < 20; number++) {
                discovery.registerService(instance("" + number, 8080));
            }
            Thread.sleep(500);
            int before = created("/320/web");
            for (int round = 0; round < 5; round++) {
                proxy.cut();
                Thread.sleep(3_000);
            }
            return created("/320/web") - before + " nodes are created at 5 reconnects, for 20 instances";
        }
    }

    /** The first call fails, and the second one is made when the servers are up again. */
    private String unregisterDuringAnOutage() throws Exception {
        try (FaultyProxy proxy = new FaultyProxy(server);
                CuratorFramework client = client(proxy.address());
                ServiceDiscovery<Void> discovery = discovery(client, "/617", null)) {
            // The end of the session does not unregister this instance.
            ServiceInstance<Void> instance = ServiceInstance.<Void>builder()
                    .name("web")
                    .id("a")
                    .serviceType(ServiceType.PERMANENT)
                    .build();
            discovery.start();
            discovery.registerService(instance);
            proxy.isDown.set(true);
            proxy.cut();
            String first = "returns";
            try {
                discovery.unregisterService(instance);
            } catch (Exception error) {
                first = "fails with " + error.getClass().getSimpleName();
            }
            proxy.isDown.set(false);
            within(10_000, () -> client.getZookeeperClient().isConnected());
            discovery.unregisterService(instance);
            boolean isLeft = isThere("/617/web/a");
            Thread.sleep(2_000);
            return "the first call " + first + "; after the second one, the instance is registered: " + isLeft
                    + ", and 2 s later: " + isThere("/617/web/a");
        }
    }

    private String startedCache() throws Exception {
        try (CuratorFramework client = client(server);
                CuratorFramework other = client(server);
                ServiceDiscovery<Void> theirs = discovery(other, "/705", null);
                ServiceDiscovery<Void> ours = discovery(client, "/705", null)) {
            theirs.start();
            ours.start();
            for (int number = 0; number < 300; number++) {
                theirs.registerService(instance("" + number, 8080));
            }
            int least = Integer.MAX_VALUE;
            int ofProvider = Integer.MAX_VALUE;
            for (int round = 0; round < 20; round++) {
                try (ServiceCache<Void> cache = ours.serviceCacheBuilder().name("web").build();
                        ServiceProvider<Void> provider =
                                ours.serviceProviderBuilder().serviceName("web").build()) {
                    cache.start();
                    least = Math.min(least, cache.getInstances().size());
                    provider.start();
                    ofProvider = Math.min(ofProvider, provider.getAllInstances().size());
                }
            }
            return "of 300 instances, after start, a cache has " + least
                    + " at least, and a provider " + ofProvider;
        }
    }

    private ServiceDiscovery<Void> discovery(
            CuratorFramework client, String base, ServiceInstance<Void> instance) {
        return ServiceDiscoveryBuilder.builder(Void.class)
                .client(client)
                .basePath(root + base)
                .thisInstance(instance)
                .build();
    }

    private static ServiceInstance<Void> instance(String id, int port) throws Exception {
        return ServiceInstance.<Void>builder()
                .name("web")
                .id(id)
                .address("10.0.0.8")
                .port(port)
                .build();
    }

    private String port(String base) throws Exception {
        try (CuratorFramework client = client(server);
                ServiceDiscovery<Void> discovery = discovery(client, base, null)) {
            ServiceInstance<Void> found = discovery.queryForInstance("web", "a");
            return found == null ? "none" : "" + found.getPort();
        }
    }
}
