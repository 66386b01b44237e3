//! The commands of the guide that create certificates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use xtask::zookeeper::ensure_openssl;
use zk_recipes::session::Config;
use zk_testing::{TestServer, TlsPort, TlsSettings};
use zk_tests::{Scratch, or_skip};
use zk_tls::Tls;

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_the_guide_serve_a_client() {
    let Some(_) = or_skip(ensure_openssl()) else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testing-your-service.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let script = blocks.into_iter().find(|block| block.contains("openssl req")).unwrap();
    let scratch = Scratch::new();
    let folder = scratch.path("service");
    std::fs::create_dir(&folder).unwrap();
    let ran = Command::new("sh").args(["-ec", script]).current_dir(&folder).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
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
