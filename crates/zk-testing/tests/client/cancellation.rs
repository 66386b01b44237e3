//! Tests of cancellation: futures are dropped after any number of polls, with and without a
//! connection loss. The client then works as before, and neither the client nor the server keeps
//! any state of the request.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zk_session::{Client, Config, CreateMode, Error, ParentMode, RetryPolicy, SessionManager};
use zk_testing::{Cut, TestServer};

use crate::in_memory::{client_of, connected};

type Asked = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
type Ask = fn(Client) -> Asked;

/// Operations of a client, by name.
const ASKED: [(&str, Ask); 17] = [
    ("create", |client| {
        Box::pin(async move { client.create("/n/new", b"", CreateMode::Ephemeral).await.map(drop) })
    }),
    ("delete", |client| Box::pin(async move { client.delete("/n/gone", None).await })),
    ("exists", |client| Box::pin(async move { client.exists("/n").await.map(drop) })),
    ("set_data", |client| {
        Box::pin(async move { client.set_data("/n", b"2", None).await.map(drop) })
    }),
    ("sync and get_data", |client| {
        Box::pin(async move {
            let (sync, read) = (client.sync("/n"), client.get_data("/n"));
            sync.await?;
            read.await.map(drop)
        })
    }),
    ("data watch", |client| {
        Box::pin(async move { client.get_data_and_watch("/n").await?.1.await.map(drop) })
    }),
    ("exists watch", |client| {
        Box::pin(async move { client.exists_and_watch("/absent").await?.1.await.map(drop) })
    }),
    ("children watch", |client| {
        Box::pin(async move { client.get_children_and_watch("/n").await?.1.await.map(drop) })
    }),
    ("stream", |client| {
        Box::pin(async move { client.watch("/n").await?.next().await.unwrap().map(drop) })
    }),
    ("recursive stream", |client| {
        Box::pin(async move { client.watch_recursive("/n").await?.next().await.unwrap().map(drop) })
    }),
    ("multi", |client| {
        Box::pin(async move {
            client.multi().check("/n", None).set_data("/n", b"3", None).send().await.map(drop)
        })
    }),
    ("multi_read", |client| {
        Box::pin(async move { client.multi_read().get_data("/n").send().await.map(drop) })
    }),
    ("add_auth", |client| Box::pin(async move { client.add_auth("digest", "a:b").await })),
    ("delete_guaranteed", |client| {
        Box::pin(async move { client.delete_guaranteed("/n/gone").await.map(drop) })
    }),
    ("retry", |client| {
        Box::pin(async move {
            let retry = client.retry(RetryPolicy::fixed(Duration::from_millis(10)));
            retry.create("/n/new", b"", CreateMode::Ephemeral).await.map(drop)
        })
    }),
    ("ensure_path", |client| {
        Box::pin(async move { client.ensure_path("/n/a/b", ParentMode::Persistent).await })
    }),
    ("protected create", |client| {
        Box::pin(async move {
            let new = client.create_builder("/n/p/x-").ephemeral().sequential().protected();
            new.parents(ParentMode::Containers).create().await.map(drop)
        })
    }),
];

#[tokio::test(start_paused = true)]
async fn cancelled_operation_leaves_no_state() {
    for (name, ask) in ASKED {
        for trouble in [None, Some(Duration::ZERO), Some(Duration::from_millis(3))] {
            let most = polls_until_done(name, ask, trouble).await;
            assert!(most >= 2, "{name}: it was never dropped in the middle");
        }
    }
}

/// Cancels the operation after one poll, two polls and so on, until it completes. Returns the
/// number of polls it then needed.
async fn polls_until_done(name: &str, ask: Ask, cut_after: Option<Duration>) -> usize {
    for polls in 1..POLLS_MAX {
        let (server, [client]) = connected().await;
        client.create("/n", b"1", CreateMode::Persistent).await.unwrap();
        client.create("/n/gone", b"", CreateMode::Persistent).await.unwrap();
        let cutter = tokio::spawn({
            let (server, session_id) = (server.clone(), client.session_id());
            async move {
                let Some(pause) = cut_after else { return };
                // reason: the cut hits the middle of the operation; the clock is paused
                tokio::time::sleep(pause).await;
                server.connection_of(session_id).cut(Cut::Rst);
            }
        });
        let other = client_of(&server, 0).await;
        let changes = tokio::spawn(async move {
            // reason: the nodes change while the operation waits; the clock is paused
            tokio::time::sleep(Duration::from_millis(500)).await;
            other.set_data("/n", b"4", None).await.unwrap();
            for path in ["/n/child", "/absent"] {
                other.create(path, b"", CreateMode::Persistent).await.unwrap();
            }
            other.close().await;
        });
        let mut asked = ask(client.clone());
        let is_done = polled(polls, asked.as_mut()).await;
        drop(asked);
        cutter.await.unwrap();
        changes.await.unwrap();
        expect_as_good_as_new(&server, &client, &format!("{name}, {polls} polls")).await;
        let is_protected = |path: &str| path.contains("_c_");
        let made = server
            .with(|ensemble| ensemble.tree().iter().filter(|(at, _)| is_protected(at)).count());
        assert_eq!(made, usize::from(is_done && name.starts_with("protected")), "{polls} polls");
        if is_done {
            return polls;
        }
    }
    panic!("{name} never came to an end");
}

async fn expect_as_good_as_new(server: &TestServer, client: &Client, what: &str) {
    let patient = client.retry(RetryPolicy::fixed(Duration::from_millis(10)));
    patient.exists("/n").await.unwrap_or_else(|error| panic!("{what}: {error}"));
    // reason: longer than an unused watch stays at the server; the clock is paused
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stats = client.stats();
    assert_eq!((stats.in_flight, stats.queued, stats.clean_up_pending), (0, 0, 0), "{what}");
    let watches = [stats.one_shot_watches, stats.recursive_watches, stats.persistent_watches];
    assert_eq!(watches, [0; 3], "{what}");
    assert_eq!(server.with(|servers| servers.watches(0)), 0, "{what}: at the server");
}

/// A cancelled connect must not leave a session that the server would have to expire.
#[tokio::test(start_paused = true)]
async fn cancelled_connect_leaves_no_session() {
    for polls in 1..POLLS_MAX {
        let server = TestServer::in_memory();
        let config = || Config::new("server-0:1").unwrap().seed(1).auth("digest", "a:b");
        let mut connecting = Box::pin(config().connector(server.clone()).connect());
        let mut client = None;
        let is_done = polled(polls, async {
            connecting.as_mut().await.map(|connected| client = Some(connected))
        });
        let is_done = is_done.await;
        drop(connecting);
        if let Some(client) = client {
            assert!(is_done && polls > 1);
            client.close().await;
        }
        // reason: all tasks become idle in this time; the clock is paused
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.with(|servers| servers.sessions().count()), 0, "{polls} polls");
        if is_done {
            return;
        }
    }
    panic!("it never came to an end");
}

#[tokio::test(start_paused = true)]
async fn dropped_close_future_still_closes_session() {
    for polls in 0..4 {
        let (server, [client]) = connected().await;
        let closing = Box::pin(client.close());
        polled(polls, async {
            closing.await;
            Ok(())
        })
        .await;
        // reason: as above
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(client.end_reason().is_some(), "{polls} polls");
        assert_eq!(server.with(|servers| servers.sessions().count()), 0);
    }
}

/// Dropping the future that waits for the next session must not lose that session.
#[tokio::test(start_paused = true)]
async fn cancelled_open_client_can_be_repeated() {
    for polls in 1..POLLS_MAX {
        let server = TestServer::in_memory();
        let config = Config::new("server-0:1").unwrap().seed(1);
        let connector = server.clone();
        let sessions = SessionManager::connect(config.connector(connector)).await.unwrap();
        let old_id = sessions.client().session_id();
        server.expire(old_id);
        sessions.client().wait_for_end().await;
        let is_done = polled(polls, async { sessions.open_client().await.map(drop) }).await;
        if !is_done {
            sessions.open_client().await.unwrap();
        }
        assert_ne!(sessions.client().session_id(), old_id);
        sessions.client().exists("/").await.unwrap();
        // reason: as above
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.with(|servers| servers.sessions().count()), 1, "{polls} polls");
        if is_done {
            return;
        }
    }
    panic!("it never came to an end");
}

/// Polls a future at most `polls` times. Returns whether it completed, with a value or an error.
pub(crate) async fn polled(polls: usize, future: impl Future<Output = Result<(), Error>>) -> bool {
    let (mut future, mut left) = (Box::pin(future), polls);
    let done = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            // The future is dropped after the last poll, without a further wait.
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("it hangs")
}

const POLLS_MAX: usize = 60;
