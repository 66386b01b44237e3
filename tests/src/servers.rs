//! Servers of tests: of a test of its own, shared by a program, or one that runs already.

use std::sync::OnceLock;
use std::{env, thread};

use xtask::zookeeper::{Ensemble, Error, Settings, Standalone, or_skip};
use zk_recipes::session::{Client, CreateMode, ErrorCode};

/// Starts a standalone server with the defaults of [`Settings`].
pub fn zookeeper() -> Option<Standalone> {
    zookeeper_with(&Settings::default())
}

/// Starts a standalone server with `settings`.
pub fn zookeeper_with(settings: &Settings) -> Option<Standalone> {
    or_skip(of_its_own().and_then(|()| settings.start()))
}

/// Starts an ensemble of three servers on loopback, which can be killed, paused and restarted.
pub fn ensemble(tick_ms: u32) -> Option<Ensemble> {
    or_skip(of_its_own().and_then(|()| Ensemble::start(3, tick_ms)))
}

/// Starts an ensemble of three servers in network namespaces, in which links can be cut as well.
pub fn ensemble_in_namespaces(tick_ms: u32) -> Option<Ensemble> {
    or_skip(of_its_own().and_then(|()| Ensemble::in_namespaces(tick_ms)))
}

/// Server with its defaults that the tests of a program share, or the one that
/// `cargo xtask test --connect` names. A test stays below its own paths.
#[derive(Clone, Debug)]
pub struct SharedServer {
    connect_string: String,
}

impl SharedServer {
    /// Returns the connect string, which ends with a chroot if the server runs already.
    pub fn connect_string(&self) -> String {
        self.connect_string.clone()
    }
}

/// Returns the server that the tests of this program share.
pub fn shared_zookeeper() -> Option<SharedServer> {
    static RUNNING: OnceLock<Option<SharedServer>> = OnceLock::new();
    match RUNNING.get_or_init(running) {
        Some(running) => Some(running.clone()),
        None => {
            own_shared_zookeeper().map(|own| SharedServer { connect_string: own.connect_string() })
        }
    }
}

/// Starts the server that the tests of this program share, with the defaults of [`Settings`], except
/// that it never deletes empty containers. For tests that need more of it than a session; they must not
/// break it.
pub fn own_shared_zookeeper() -> Option<&'static Standalone> {
    // Never dropped: the server ends with the process. Tests list locks that have just become empty, which
    // the server would delete once a minute.
    static SHARED: OnceLock<Result<Standalone, Error>> = OnceLock::new();
    let start = || of_its_own().and_then(|()| Settings::default().keep_containers().start());
    or_skip(SHARED.get_or_init(start).as_ref().map_err(Clone::clone))
}

/// Fails if the tests must use a server that runs already.
fn of_its_own() -> Result<(), Error> {
    match env::var_os(CONNECT) {
        None => Ok(()),
        Some(_) => Err(Error::unsupported("it needs a server of its own, without --connect")),
    }
}

/// Returns the server that runs already, if there is one, with its chroot created.
fn running() -> Option<SharedServer> {
    let connect_string = env::var(CONNECT).ok()?;
    let (address, chroot) = connect_string.split_once('/').unwrap();
    let (address, chroot) = (address.to_owned(), format!("/{chroot}"));
    // A thread of its own: the caller may run in a runtime, which must not be blocked on.
    let create = async move {
        let client = Client::connect(&address).await.unwrap();
        match client.create(&chroot, b"", CreateMode::Persistent).await {
            Err(error) if error.code() != Some(ErrorCode::NODE_EXISTS) => panic!("{error}"),
            _ => client.close().await,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    thread::spawn(move || runtime.block_on(create)).join().unwrap();
    Some(SharedServer { connect_string })
}

/// Variable with `HOST:PORT/CHROOT` of a server that runs already.
const CONNECT: &str = "ZK_TESTS_CONNECT";
