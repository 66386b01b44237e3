//! Sessions that go from client to client, from server to server, and from a server without a
//! quorum to one that has it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::{
    Config, CreateMode, ErrorKind, LossCause, Outcome, SessionCredentials, SessionEnd, SessionEvent,
};
use zk_tests::{Settings, connect, ensemble, or_skip, poll, zookeeper};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_handed_from_one_client_to_the_next_with_its_nodes() {
    let Some(zk) = zookeeper() else { return };
    let first = connect(&zk.connect_string(), TIMEOUT).await;
    let session_id = first.session_id();
    let node = first.create("/handed", b"", CreateMode::Ephemeral).await.unwrap();
    let lock = Mutex::new(&first, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();

    let left = first.detach().unwrap();
    assert!(!guard.is_held(), "whoever is detached holds nothing");
    assert!(first.exists("/").await.is_err());
    // As another process gets it: by its parts.
    let written = (left.session_id(), left.password().to_vec(), left.last_zxid());
    let credentials = SessionCredentials::new(written.0, written.1, written.2);
    let config = Config::new(&zk.connect_string()).unwrap().session_timeout(TIMEOUT);
    let second = config.clone().resume(credentials.clone()).connect().await.unwrap();
    assert_eq!(second.session_id(), session_id);
    let stat = second.exists("/handed").await.unwrap().expect("the node has stayed");
    assert_eq!((stat.czxid, stat.ephemeral_owner), (node.stat.czxid, session_id));
    drop((guard, first)); // nor does anything of the first client end the session
    assert!(second.exists("/handed").await.unwrap().is_some());

    second.close().await;
    let third = config.resume(credentials).connect().await.unwrap_err();
    assert_eq!(*third.kind(), ErrorKind::SessionEnded(SessionEnd::Expired));
    let observer = connect(&zk.connect_string(), TIMEOUT).await;
    assert_eq!(observer.exists("/handed").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_to_the_servers_it_is_told_of() {
    let Some(ensemble) = ensemble(TICK_MS) else { return };
    let address = |index: usize| ensemble.server(index).connect_string();
    let client = connect(&address(0), TIMEOUT).await;
    let session_id = client.session_id();
    client.create("/moved", b"", CreateMode::Ephemeral).await.unwrap();
    let mut events = client.events();

    client.update_servers(&address(1)).unwrap();
    let suspended = SessionEvent::Suspended { session_id, cause: LossCause::Rebalanced };
    assert_eq!(next(&mut events).await, suspended);
    match next(&mut events).await {
        SessionEvent::Reconnected { session_id: id, host, .. } => {
            assert_eq!((id, host.to_string()), (session_id, address(1)));
        }
        other => panic!("{other:?}"),
    }
    let stat = client.exists("/moved").await.unwrap().expect("the node has stayed");
    assert_eq!(stat.ephemeral_owner, session_id);

    // It is in the list, which has not grown: it stays.
    client.update_servers(&address(1)).unwrap();
    client.exists("/moved").await.unwrap();
    assert_eq!(client.stats().connections_lost, 1);
    assert_eq!(client.stats().connected_to.unwrap().to_string(), address(1));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_on_a_minority_goes_to_the_majority_when_it_hears_of_it() {
    let settings = Settings::default()
        .tick_ms(TICK_MS)
        .jvm_flag("-Dreadonlymode.enabled=true")
        .config("localSessionsEnabled", "true")
        .config("localSessionsUpgradingEnabled", "true");
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let leader = ensemble.leader().unwrap();
    let alone = ensemble.follower().unwrap();
    let majority = connect(&ensemble.server(leader).connect_string(), TIMEOUT).await;
    majority.create("/n", b"known", CreateMode::Persistent).await.unwrap();
    let reader = connect(&ensemble.server(alone).connect_string(), TIMEOUT).await;
    reader.sync("/n").await.unwrap();
    reader.close().await;

    for other in (0..3).filter(|other| *other != alone) {
        ensemble.cut(alone, other).unwrap();
    }
    let server = ensemble.server(alone);
    let is_read_only = || server.four_letter("isro").ok().filter(|mode| mode.starts_with("ro"));
    poll(LIMIT, is_read_only).expect("the server never noticed that it is alone");
    majority.set_data("/n", b"new", None).await.unwrap();

    // Without leave there is no session to be had there.
    let config = Config::new(&server.connect_string()).unwrap().session_timeout(TIMEOUT);
    let refused = config.clone().connect_timeout(Duration::from_secs(3)).connect().await;
    assert!(matches!(refused.unwrap_err().kind(), ErrorKind::NoSession(_)));

    let client = config.allow_read_only(true).connect_timeout(LIMIT).connect().await.unwrap();
    assert!(client.is_read_only());
    assert_eq!((client.session_id(), client.session_credentials()), (0, None));
    assert_eq!(client.get_data("/n").await.unwrap().data.unwrap(), "known");
    let error = client.set_data("/n", b"", None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::NotReadOnly, Outcome::NotApplied));
    assert!(Mutex::new(&client, "/lock").unwrap().acquire().await.is_err());

    let mut events = client.events();
    client.update_servers(&ensemble.connect_string()).unwrap();
    let connected = async {
        loop {
            if let SessionEvent::Connected { session_id, .. } = next(&mut events).await {
                return session_id;
            }
        }
    };
    let session_id = tokio::time::timeout(LIMIT, connected).await.expect("never found another");
    assert!(session_id != 0 && client.session_id() == session_id && !client.is_read_only());
    assert!(is_read_only().is_some(), "it was still alone");
    assert_eq!(client.get_data("/n").await.unwrap().data.unwrap(), "new");
    client.set_data("/n", b"written", None).await.unwrap();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
    client.close().await;
}

async fn next(events: &mut zk_recipes::session::SessionEvents) -> SessionEvent {
    tokio::time::timeout(LIMIT, events.next()).await.expect("no event").expect("no more events")
}

const TICK_MS: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(60);
