//! The commands of the guide's pages that create certificates and a secured ensemble.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use xtask::zookeeper::{Distribution, ensure_openssl};
use zk_recipes::Mutex;
use zk_recipes::session::{Config, DigestMd5};
use zk_testing::{TestServer, TlsPort, TlsSettings};
use zk_tests::{Scratch, WHO_AM_I, or_skip, release, shared_zookeeper};
use zk_tls::Tls;

#[tokio::test(flavor = "multi_thread")]
async fn secured_ensemble_of_the_guide_serves_its_clients() {
    let Some(_) = or_skip(ensure_openssl()) else { return };
    let Some(shared) = shared_zookeeper() else { return };
    let distribution = Distribution::shared().unwrap();
    let ports = Ports::choose();
    let scratch = Scratch::new();
    let script = block("secured-ensembles.md", "```bash\n", "cat > jaas.conf");
    let folder = run(&scratch, "bash", &ports.replace(&script)).join("secured");
    let _servers: Vec<Server> =
        (1..=3).map(|id| Server::start(distribution, &folder, id)).collect();

    let file = |name: &str| folder.join(name);
    let hosts = ["2281", "2282", "2283"].map(|port| format!("localhost:{}", ports.replace(port)));
    let config = || {
        let config = Config::new(&hosts.join(",")).unwrap();
        config.connect_timeout(START_LIMIT).refused_timeout(START_LIMIT)
    };
    let tls = || Tls::builder().ca_file(file("ca.pem"));
    let app = tls().client_certificate_files(file("app.crt"), file("app.key")).build().unwrap();
    let app = config().connector(app).connect().await.unwrap();
    let alice = config().sasl(DigestMd5::new("alice", "sesame"));
    let alice = alice.connector(tls().build().unwrap()).connect().await.unwrap();
    for (client, scheme, user) in [(&app, "x509", "CN=app,O=example"), (&alice, "sasl", "alice")] {
        if release(shared) >= WHO_AM_I {
            let known = client.who_am_i().await.unwrap();
            assert!(
                known.iter().any(|identity| identity.scheme == scheme && identity.user == user),
                "{known:?}"
            );
        }
        let guard = Mutex::new(client, "/locks/backup").unwrap().acquire().await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_the_guide_serve_a_client() {
    let Some(_) = or_skip(ensure_openssl()) else { return };
    let scratch = Scratch::new();
    let script = block("testing-your-service.md", "```sh\n", "openssl req");
    let folder = run(&scratch, "sh", &script);
    let file = |name: &str| folder.join("tests/certificates").join(name);
    for name in ["server.pem", "next.pem"] {
        let settings = TlsSettings::new(std::fs::read(file(name)).unwrap());
        let port = TlsPort::listen(&TestServer::in_memory(), 0, &settings).await.unwrap();
        let tls = Tls::builder().ca_file(file("ca.pem")).build().unwrap();
        let config = Config::new(&port.address().to_string()).unwrap();
        let client = config.connector(tls).connect().await.unwrap();
        assert!(client.exists("/").await.unwrap().is_some(), "{name}");
    }
}

/// Returns the block of a page that begins like this and contains a text.
fn block(page: &str, begin: &str, with: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page.split(begin).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(with)).unwrap().to_owned()
}

/// Runs a script in a new folder, and returns the folder.
fn run(scratch: &Scratch, shell: &str, script: &str) -> PathBuf {
    let folder = scratch.path("guide");
    std::fs::create_dir(&folder).unwrap();
    let ran = Command::new(shell).args(["-ec", script]).current_dir(&folder).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    folder
}

/// Ports that are free on this machine, for those of the page.
struct Ports(Vec<(String, String)>);

impl Ports {
    fn choose() -> Self {
        let listeners = OF_THE_PAGE.map(|port| (port, TcpListener::bind("127.0.0.1:0").unwrap()));
        let free = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        Self(listeners.iter().map(|(port, it)| (port.to_string(), free(it))).collect())
    }

    /// Replaces the ports in a text, and the loop variable that the page writes in their place.
    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for start in ["218", "228"] {
            let list = [1, 2, 3].map(|id| format!("{start}{id}")).join(" ");
            let chosen = format!("$(set -- $id {list}; shift $1; echo $1)");
            text = text.replace(&format!("{start}$id"), &chosen);
        }
        // A free port may have one of the page's in it, such as 32883. So it comes last.
        let mark = |at: usize| format!("<port {at}>");
        for (at, (port, _)) in self.0.iter().enumerate() {
            text = text.replace(port.as_str(), &mark(at));
        }
        self.0.iter().enumerate().fold(text, |text, (at, (_, free))| text.replace(&mark(at), free))
    }
}

const OF_THE_PAGE: [u16; 12] =
    [2181, 2182, 2183, 2281, 2282, 2283, 2881, 2882, 2883, 3881, 3882, 3883];

struct Server(Child);

impl Server {
    fn start(distribution: &Distribution, folder: &Path, id: u32) -> Self {
        let mut java = Command::new(distribution.java());
        java.arg("-cp").arg(distribution.class_path()).current_dir(folder);
        java.args(["-XX:TieredStopAtLevel=1", "-Djava.security.auth.login.config=jaas.conf"]);
        java.args([
            "-Dzookeeper.fips-mode=false",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        ]);
        java.arg(format!("zoo{id}.cfg")).stdin(Stdio::null());
        let log = File::create(folder.join(format!("log{id}"))).unwrap();
        java.stderr(log.try_clone().unwrap()).stdout(log);
        Self(java.spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the server has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three servers start and elect a leader.
const START_LIMIT: Duration = Duration::from_secs(60);
