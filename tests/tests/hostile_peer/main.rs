//! Tests of a server that violates the protocol: the client fails with an error, in time, and its
//! memory stays small.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod liar;
mod peer;
mod printed;
mod trees;

use std::time::Duration;

use zk_recipes::session::{Client, Config, DisconnectReason, Error, ErrorKind, SessionEnd};
use zk_tests::{Running, Zk, now, poll};

use self::peer::{Answer, Hello, Peer};

/// The client leaves a server that answers only pings after a session timeout. The session lives
/// on, and the client can be closed.
#[tokio::test(flavor = "multi_thread")]
async fn client_leaves_server_that_answers_only_pings() {
    let peer = Peer::start(Hello::Good, Answer::Pongs);
    let client = config(&peer).connect().await.unwrap();
    let limit = SESSION_TIMEOUT + ALLOWANCE;
    let asked = tokio::time::timeout(limit, client.get_children("/")).await;
    let error = asked.expect("nobody waits for ever").unwrap_err();
    assert_eq!(
        *error.kind(),
        ErrorKind::ConnectionLost(DisconnectReason::RequestTimeout),
        "{error}"
    );
    assert_eq!(client.end_reason(), None);
    let closed = tokio::time::timeout(CLOSE_TIMEOUT + ALLOWANCE, client.close()).await;
    closed.expect("closing takes no longer than it may");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_survives_odd_session_timeouts() {
    for timeout_ms in [0, -1, 1, i32::MIN, i32::MAX] {
        let peer = Peer::start(Hello::Timeout(timeout_ms), Answer::Random);
        let start = now();
        let asked = async {
            match config(&peer).connect().await {
                Ok(client) => ask(&client, Answer::Random).await,
                Err(error) => error,
            }
        };
        let limit = CONNECT_TIMEOUT + SESSION_TIMEOUT * 4 / 3 + ALLOWANCE;
        let asked = tokio::time::timeout(limit, asked).await;
        let error = asked.unwrap_or_else(|_| panic!("{timeout_ms} ms: no end"));
        expect_no_panic(&error);
        println!("{timeout_ms} ms: {error} after {:?}", start.elapsed());
    }
}

#[test]
fn command_fails_with_one_line_and_little_memory() {
    let bad_hellos = Hello::bad().into_iter().map(|hello| Peer::start(hello, Answer::Silence));
    let bad_answers = Answer::BAD.map(|answer| Peer::start(Hello::Good, answer));
    let peers: Vec<Peer> = bad_hellos.chain(bad_answers).collect();
    let start = now();
    let mut running: Vec<Option<Running>> = peers
        .iter()
        .map(|peer| {
            let zk = Zk::new(peer.address()).session_timeout(SESSION_TIMEOUT);
            Some(zk.data_limit_kib(MEMORY_MAX_KIB).start(&["ls", "/"]))
        })
        .collect();
    let ended = poll(COMMAND_LIMIT, || {
        for (index, command) in running.iter_mut().enumerate() {
            let Some(alive) = command else { continue };
            if alive.has_ended() {
                println!("{:?}: over after {:?}", peers[index], start.elapsed());
                expect_clean_end(command.take().unwrap(), &peers[index]);
            }
        }
        running.iter().all(Option::is_none).then_some(())
    });
    for (peer, command) in peers.iter().zip(&running) {
        assert!(command.is_none(), "{peer:?}: runs after {COMMAND_LIMIT:?}");
    }
    ended.unwrap();
    println!("{} peers, all over after {:?}", peers.len(), start.elapsed());
}

fn config(peer: &Peer) -> Config {
    let config = Config::new(&peer.address()).unwrap();
    config.session_timeout(SESSION_TIMEOUT).connect_timeout(CONNECT_TIMEOUT)
}

async fn ask(client: &Client, answer: Answer) -> Error {
    let listed = client.get_children("/").await;
    listed.err().unwrap_or_else(|| panic!("{answer:?} was taken for an answer"))
}

/// A session that no caller closes has the end `Closed` only if its driver has panicked.
fn expect_no_panic(error: &Error) {
    let closed = ErrorKind::SessionEnded(SessionEnd::Closed);
    assert!(*error.kind() != closed, "{error}");
}

fn expect_clean_end(command: Running, peer: &Peer) {
    let ended = command.wait(Duration::ZERO);
    assert!(matches!(ended.code(), Some(69 | 1)), "{peer:?}: {ended:?}");
    assert_eq!(ended.stdout, "", "{peer:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{peer:?}: {ended:?}");
    assert!(ended.stderr.starts_with("zk: "), "{peer:?}: {ended:?}");
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a machine with other work. The peers themselves are a large part of that work.
const ALLOWANCE: Duration = Duration::from_secs(2);
/// Connecting takes at most 10 s. Servers that answer nothing are retried for 10 s, in one more
/// session if necessary. Closing takes 2 s.
const COMMAND_LIMIT: Duration = Duration::from_secs(10 + 10 + 2 + 4);
/// Four of the largest frames that the client accepts.
const MEMORY_MAX_KIB: u64 = 64 * 1024;
