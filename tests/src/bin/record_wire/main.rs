//! Records the exchanges between the Java client and a real server, one operation after the other.
//!
//! ```text
//! cargo run -p zk-tests --bin record_wire [folder]
//! ```
//!
//! The recordings are the golden vectors of `zk-proto`: one text file per operation, by default in
//! `crates/zk-proto/tests/golden`. A run replaces all of them. The `README.md` there describes
//! their contents. [`by_hand`] sends the requests that the Java client cannot produce. This program
//! never uses the encoder that the recordings test.
//!
//! It needs a JDK and a real ZooKeeper, which it finds in the same way as the tests.

extern crate zk_proto as proto;

mod by_hand;
mod java;
#[allow(clippy::expect_used, reason = "the requests are constants of this program")]
#[path = "../../../../crates/zk-testing/tests/conformance/player/message.rs"]
mod message;
mod proxy;
mod transcript;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use java::Scenario;
use proxy::Proxy;
use transcript::Transcript;
use zk_tests::{Scratch, Settings, poll};

fn main() -> ExitCode {
    match record() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record_wire: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn record() -> Outcome<()> {
    let folder = std::env::args_os().nth(1).map_or_else(default_folder, PathBuf::from);
    let transcript = Arc::new(Transcript::default());
    alone(&transcript)?;
    with_sasl(&transcript)?;
    in_an_ensemble(&transcript)?;
    transcript.write(&folder)?;
    println!("wrote {} exchanges to {}", transcript.len(), folder.display());
    Ok(())
}

fn alone(transcript: &Arc<Transcript>) -> Outcome<()> {
    let server = Settings::default().start()?;
    let version = server.status()?.map(|status| status.version).unwrap_or_default();
    transcript.note_server(&version);
    let proxy = Proxy::start(server.address(), Arc::clone(transcript))?;
    for name in ["operations", "watches"] {
        Scenario { name, server: &server, proxy: &proxy, jvm_flags: &[] }.run(transcript)?;
    }
    by_hand::alone(server.address(), transcript)
}

fn with_sasl(transcript: &Arc<Transcript>) -> Outcome<()> {
    let scratch = Scratch::new();
    let logins = scratch.path("jaas.conf");
    fs::write(&logins, LOGINS)?;
    let flag = format!("-Djava.security.auth.login.config={}", logins.display());
    let server = Settings::default()
        .jvm_flag(flag.clone())
        .config("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .start()?;
    let proxy = Proxy::start(server.address(), Arc::clone(transcript))?;
    Scenario { name: "sasl", server: &server, proxy: &proxy, jvm_flags: &[flag] }.run(transcript)
}

fn in_an_ensemble(transcript: &Arc<Transcript>) -> Outcome<()> {
    let ensemble = Settings::default()
        .config("reconfigEnabled", "true")
        .jvm_flag("-Dzookeeper.skipACL=yes")
        .jvm_flag("-Dreadonlymode.enabled=true")
        .start_ensemble(3)?;
    let survivor = ensemble.server(0);
    let proxy = Proxy::start(survivor.address(), Arc::clone(transcript))?;
    Scenario { name: "reconfig", server: survivor, proxy: &proxy, jvm_flags: &[] }
        .run(transcript)?;

    ensemble.server(1).kill();
    ensemble.server(2).kill();
    let read_only =
        || survivor.four_letter("isro").is_ok_and(|answer| answer == "ro").then_some(());
    poll(transcript::PATIENCE, read_only).ok_or("the server has not become read-only")?;
    by_hand::read_only(survivor.address(), transcript)
}

fn default_folder() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    workspace.join("crates/zk-proto/tests/golden")
}

const LOGINS: &str = r#"Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="secret";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="alice" password="secret";
};
"#;
