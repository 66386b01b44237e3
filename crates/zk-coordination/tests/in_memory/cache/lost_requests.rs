//! A cache whose requests are lost one by one.

use zk_coordination::Cache;
use zk_testing::{Cut, ErrorCode, Op};

use super::{Replay, assert_is_tree, create, cut, set, synced, tree};
use crate::{MS, T, config, manager, pass};

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
    let (server, writer, sessions) = tree(&["/app", "/app/a", "/app/a/b", "/app/c"]).await;
    set(&writer, "/app/c", [1; 5_000]).await;
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
    let mut replay = Replay::new(&changes);
    create(&writer, &["/app/a/new"]).await;
    cut(&server, &sessions);
    set(&writer, "/app/c", b"").await;
    writer.delete("/app/a/b", None).await.unwrap();
    pass(3 * T).await; // for reconnects and sessions
    synced(&cache).await;
    replay.apply_all(&mut changes);
    eprintln!("{case}");
    assert_is_tree(&cache.snapshot(), &server);
    replay.assert_same(&cache.snapshot());
}

/// No reply arrives within the request timeout of the sessions, which is for callers.
#[tokio::test(start_paused = true)]
async fn cache_has_no_request_timeout() {
    for is_always_slow in [true, false] {
        let (server, _writer, _) = tree(&["/app", "/app/a"]).await;
        let sessions = manager(&server, config(3).request_timeout(500 * MS)).await;
        let slow = if is_always_slow {
            server.on_any_request().session(sessions.client().session_id()).always()
        } else {
            server.on(Op::GetData).times(3)
        };
        slow.delay(700 * MS);
        let cache = tokio::time::timeout(T, Cache::tree(&sessions, "/app").open()).await.unwrap();
        assert_is_tree(&cache.unwrap().snapshot(), &server);
    }
}
