//! A cache whose requests are lost one by one.

use std::time::Duration;

use zk_coordination::Cache;
use zk_coordination::session::{CreateMode, SessionManager};
use zk_testing::{Cut, ErrorCode, Op, TestServer};

use super::{Replay, assert_is_tree, create, synced};
use crate::{T, client, config, sessions};

const OPS: [Op; 6] =
    [Op::AddWatch, Op::GetData, Op::MultiRead, Op::GetChildren2, Op::Exists, Op::SetWatches2];

/// How a request is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Request,
    Reply,
    HalfOfTheReply,
    Throttled,
    ExpiredAfterwards,
}

#[tokio::test(start_paused = true)]
async fn cache_recovers_from_each_lost_request() {
    use Loss::*;
    for loss in [Request, Reply, HalfOfTheReply, Throttled, ExpiredAfterwards] {
        for op in OPS {
            for nth in 1..4 {
                let is_own = op == Op::SetWatches2; // which the session handles
                if !(is_own && matches!(loss, Throttled)) {
                    lose(loss, op, nth).await;
                }
            }
        }
    }
}

async fn lose(loss: Loss, op: Op, nth: u64) {
    let case = format!("{loss:?} of {op:?} {nth}");
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/app", "/app/a", "/app/a/b", "/app/c"]).await;
    writer.set_data("/app/c", [1; 5_000], None).await.unwrap();
    let sessions = sessions(&server, 2).await;
    let fault = server.on(op).nth(nth);
    match loss {
        Loss::Request => fault.drop_before_applying(),
        Loss::Reply => fault.apply_then_drop_reply(),
        Loss::HalfOfTheReply => fault.cut_after(30, Cut::Fin),
        Loss::Throttled => fault.answer(ErrorCode::THROTTLED_OP),
        Loss::ExpiredAfterwards => fault.apply_then_expire_session(),
    };
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    let mut replay = Replay::new(changes.snapshot().unwrap());
    writer.create("/app/a/new", b"", CreateMode::Persistent).await.unwrap();
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    writer.set_data("/app/c", b"", None).await.unwrap();
    writer.delete("/app/a/b", None).await.unwrap();
    // reason: reconnects and sessions in virtual time
    tokio::time::sleep(3 * T).await;
    synced(&cache).await;
    while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
        replay.apply(&changes, &change);
    }
    eprintln!("{case}");
    assert_is_tree(&cache.snapshot(), &server);
    replay.assert_same(&cache.snapshot());
}

/// No reply arrives within the request timeout of the sessions, which is for callers.
#[tokio::test(start_paused = true)]
async fn cache_has_no_request_timeout() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/app", "/app/a"]).await;
    let config = config(2).request_timeout(Duration::from_millis(500));
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let id = sessions.client().session_id();
    server.on_any_request().session(id).always().delay(Duration::from_millis(700));
    let cache = tokio::time::timeout(T, Cache::tree(&sessions, "/app").open()).await.unwrap();
    assert_is_tree(&cache.unwrap().snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn request_timeout_shorter_than_a_reply_is_retried() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/app", "/app/a"]).await;
    let config = config(2).request_timeout(Duration::from_millis(500));
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    server.on(Op::GetData).times(3).delay(Duration::from_millis(700));
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
}
