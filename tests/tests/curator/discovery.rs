//! Service discovery of ours beside Curator's `ServiceDiscovery`, on a real server.

use std::collections::BTreeSet;

use zk_discovery::session::{Client, CreateMode};
use zk_discovery::{
    Discovery, Instances, NodeState, Registration, ServiceCache, ServiceInstance, ServiceType,
    UriSpec,
};
use zk_tests::{Curator, LIMIT, eventually};

use crate::{SHORT, address, sessions};

/// A payload as Java writes it, with the class that a Java reader creates.
const DETAILS: &str = r#"{"@class":"CuratorDiscovery$Details","zone":"eu","weight":7}"#;

struct Peers {
    address: String,
    curator: Curator,
    discovery: Discovery,
}

impl Peers {
    async fn new(base: &str) -> Option<Self> {
        let address = address()?;
        let mut curator = Curator::with_program("CuratorDiscovery.java", &address, SHORT)?;
        curator.ok("java", &format!("open {base}"));
        let discovery = Discovery::new(&sessions(&address).await, base).unwrap();
        Some(Self { address, curator, discovery })
    }

    /// Registers an instance of ours, and waits for it.
    async fn register(&self, instance: ServiceInstance) -> Registration {
        let registration = self.discovery.register(instance).unwrap();
        registration.wait_until_registered(LIMIT).await.unwrap();
        registration
    }

    /// Waits until the cache of Curator has these instances.
    async fn expect_theirs(&mut self, instances: &[&str]) {
        let seen = eventually(LIMIT, async || {
            (self.curator.ok("java", "cached") == instances).then_some(())
        });
        assert!(seen.await.is_some(), "Curator sees {:?}", self.curator.ok("java", "cached"));
    }
}

fn ours(id: &str) -> ServiceInstance {
    ServiceInstance::new("web")
        .with_id(id)
        .with_address("10.0.0.7")
        .with_port(8080)
        .with_payload_json(DETAILS)
        .unwrap()
        .with_uri_spec(UriSpec::parse("{scheme}://{address}:{port}").unwrap())
}

fn listed(instances: &Instances) -> Vec<String> {
    let zone =
        |instance: &ServiceInstance| instance.payload()["zone"].as_str().unwrap_or("-").to_owned();
    instances
        .iter()
        .map(|instance| format!("{}={}={}", instance.id(), instance.uri(), zone(instance)))
        .collect()
}

/// Waits until our cache has these instances.
async fn expect_ours(cache: &ServiceCache, instances: &[&str]) {
    let mut found = cache.instances();
    while listed(&found) != instances {
        let changed = tokio::time::timeout(LIMIT, cache.changed(&found)).await;
        found =
            changed.unwrap_or_else(|_| panic!("we see {:?}, {cache:?}", listed(&found))).unwrap();
    }
}

async fn text(client: &Client, path: &str) -> String {
    let data = client.get_data(path).await.unwrap().data;
    String::from_utf8(data.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_instances_are_listed_alike() {
    let Some(mut peers) = Peers::new("/interop/discovery").await else { return };
    let cache = peers.discovery.cache("web").await.unwrap();
    peers.curator.ok("java", "cache web");
    let ours = peers.register(ours("ours")).await;
    peers.curator.ok("java", "register web theirs 8081 DYNAMIC us");

    let both = ["ours=http://10.0.0.7:8080=eu", "theirs=http://10.0.0.8:8081=us"];
    expect_ours(&cache, &both).await;
    peers.expect_theirs(&both).await;
    assert_eq!(peers.curator.ok("java", "query web"), both);
    assert_eq!(peers.curator.ok("java", "names"), ["web"]);
    assert_eq!(peers.discovery.names().await.unwrap(), ["web"]);

    ours.update(ours.instance().with_ssl_port(8443)).await.unwrap();
    peers.curator.ok("java", "update 9091");
    let updated = ["ours=https://10.0.0.7:8080=eu", "theirs=http://10.0.0.8:9091=us"];
    expect_ours(&cache, &updated).await;
    peers.expect_theirs(&updated).await;

    ours.unregister().await.unwrap();
    peers.expect_theirs(&updated[1..]).await;
    peers.curator.ok("java", "unregister");
    expect_ours(&cache, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_is_the_same_byte_for_byte() {
    let Some(mut peers) = Peers::new("/interop/discovery-json").await else { return };
    let client = Client::connect(&peers.address).await.unwrap();
    let plain = ServiceInstance::new("web").with_id("plain").with_payload("a \"text\" \u{fc}\n");
    let map = ours("map").with_payload_json(r#"{"zone":"eu"}"#).unwrap();
    let disabled = ours("disabled").disabled();
    let sequential = ours("seq").with_service_type(ServiceType::DynamicSequential);
    let permanent = ours("permanent").with_service_type(ServiceType::Permanent).with_ssl_port(1);
    let mut registrations = Vec::new();
    for instance in [plain, ours("class"), sequential, permanent] {
        let registration = peers.register(instance).await;
        let NodeState::Present { path, .. } = registration.state() else { panic!() };
        let rewritten = peers.curator.ok("java", &format!("rewrite {path}")).join(" ");
        assert_eq!(text(&client, &path).await, rewritten);
        registrations.push(registration);
    }
    registrations.push(peers.register(map).await);
    registrations.push(peers.register(disabled).await);
    assert_eq!(
        peers.curator.ok("java", "query web"),
        [
            "class=http://10.0.0.7:8080=eu",
            "disabled=http://10.0.0.7:8080=eu",
            "map=http://10.0.0.7:8080=eu",
            "permanent=https://10.0.0.7:8080=eu",
            "plain==-",
            "seq=http://10.0.0.7:8080=eu"
        ]
    );
    for service_type in ["STATIC", "DYNAMIC_SEQUENTIAL"] {
        let verb = format!("register java java-{service_type} 1 {service_type} us");
        peers.curator.ok(service_type, "open /interop/discovery-json");
        peers.curator.ok(service_type, &verb);
    }
    for name in client.get_children("/interop/discovery-json/java").await.unwrap().names.names() {
        let data = text(&client, &format!("/interop/discovery-json/java/{name}")).await;
        assert_eq!(ServiceInstance::from_json(data.as_bytes()).unwrap().to_json(), data);
    }
    assert_eq!(peers.discovery.instances("java").await.unwrap().len(), 2);
    for registration in registrations {
        registration.unregister().await.unwrap();
    }
    assert!(peers.curator.ok("java", "query web").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_choose_instances_of_both() {
    let Some(mut peers) = Peers::new("/interop/discovery-provider").await else { return };
    let _ours = peers.register(ours("ours")).await;
    peers.curator.ok("java", "register web theirs 8081 DYNAMIC us");
    peers.curator.ok("java", "provide web");
    let provider = peers.discovery.provider("web").await.unwrap();
    let by_us: BTreeSet<_> = (0..4).map(|_| provider.instance().unwrap().id().to_owned()).collect();
    let by_java: BTreeSet<_> =
        (0..4).map(|_| peers.curator.ok("java", "provided")[0].clone()).collect();
    assert_eq!(by_us, BTreeSet::from(["ours".to_owned(), "theirs".to_owned()]));
    assert_eq!(by_java, by_us);

    // One node that is no instance: our readers report it, and Curator's query fails.
    let client = Client::connect(&peers.address).await.unwrap();
    let broken = "/interop/discovery-provider/web/broken";
    client.create(broken, b"{\"name\":", CreateMode::Ephemeral).await.unwrap();
    let instances = peers.discovery.instances("web").await.unwrap();
    assert_eq!((instances.len(), instances.rejected()[0].path()), (2, broken));
    assert_eq!(peers.curator.ask("java", "query web")[0], "error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_of_a_killed_java_instance_is_ours_after_its_expiry() {
    let Some(mut peers) = Peers::new("/interop/discovery-kill").await else { return };
    peers.curator.ok("java", "register web a 8081 DYNAMIC us");
    let cache = peers.discovery.cache("web").await.unwrap();
    expect_ours(&cache, &["a=http://10.0.0.8:8081=us"]).await;
    let registration = peers.discovery.register(ours("a")).unwrap();
    let mut state = registration.subscribe();
    let conflict = state.wait_for(|state| *state != NodeState::Pending).await.unwrap().clone();
    assert!(matches!(conflict, NodeState::Conflict { .. }), "{conflict}");
    expect_ours(&cache, &["a=http://10.0.0.8:8081=us"]).await;
    peers.curator.kill();
    registration.wait_until_registered(LIMIT).await.unwrap();
    expect_ours(&cache, &["a=http://10.0.0.7:8080=eu"]).await;
    registration.unregister().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_forgets_our_instance_after_its_session_expires() {
    let Some(mut peers) = Peers::new("/interop/discovery-expiry").await else { return };
    peers.curator.ok("java", "cache web");
    let dying = sessions(&peers.address).await;
    let registration = Discovery::new(&dying, "/interop/discovery-expiry").unwrap();
    let registration = registration.register(ours("ours")).unwrap();
    registration.wait_until_registered(LIMIT).await.unwrap();
    peers.expect_theirs(&["ours=http://10.0.0.7:8080=eu"]).await;
    dying.client().detach(); // the session goes on without its process
    peers.expect_theirs(&[]).await;
}
