//! Tests of requests that are retried, and of requests that are not.

use std::time::Duration;

use tokio::time::Instant;
use zk_session::limits::TIMED_OUT_MAX;
use zk_session::{
    Client, CreateMode, Created, Error, ErrorCode, ErrorKind, ErrorOrigin, Outcome, Retry,
    RetryPolicy,
};
use zk_testing::{Op, TestServer};

use crate::in_memory::{client_of, connected};

const MS: Duration = Duration::from_millis(1);

/// Starts a server with a node `/n`. Returns a client, and a handle of it that retries without a limit.
async fn retrying() -> (TestServer, Client, Retry) {
    let (server, [client]) = connected().await;
    client.create("/n", b"0", CreateMode::Persistent).await.unwrap();
    let retry = client.retry(RetryPolicy::exponential(10 * MS, 80 * MS));
    (server, client, retry)
}

fn unknown<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    error
}

#[tokio::test(start_paused = true)]
async fn reads_are_retried_unless_server_refuses_them() {
    let (server, _, retry) = retrying().await;
    let lost = server.on(Op::GetData).times(3).apply_then_drop_reply();
    assert_eq!(&retry.get_data("/n").await.unwrap().data[..], b"0");
    assert_eq!(lost.count(), 3);
    let busy = server.on(Op::Exists).times(2).answer(ErrorCode::THROTTLED_OP);
    assert!(retry.exists("/n").await.unwrap().is_some());
    assert_eq!(busy.count(), 2);
    server.on(Op::GetChildren2).drop_before_applying();
    assert!(retry.get_children("/n").await.unwrap().names.is_empty());
    let declined = server.on(Op::GetAcl).answer(ErrorCode::NO_AUTH);
    let error = retry.run(|client| client.get_acl("/n")).await.unwrap_err();
    assert_eq!((error.code(), declined.count()), (Some(ErrorCode::NO_AUTH), 1));
}

#[tokio::test(start_paused = true)]
async fn write_with_unknown_outcome_is_not_retried() {
    let (server, client, retry) = retrying().await;
    for applied in [true, false] {
        let on = server.on(Op::SetData);
        let fault = if applied { on.apply_then_drop_reply() } else { on.drop_before_applying() };
        unknown(retry.run(|client| client.set_data("/n", b"1", None)).await);
        assert_eq!(fault.count(), 1);
    }
    server.on(Op::SetData).apply_then_drop_reply();
    unknown(retry.set_data("/n", b"2", None).await);
    assert_eq!(client.exists("/n").await.unwrap().unwrap().version, 2);

    server.on(Op::Create2).apply_then_drop_reply();
    unknown(retry.create("/n/s-", b"", CreateMode::PersistentSequential).await);
    assert_eq!(client.get_children("/n").await.unwrap().names.len(), 1, "and not two");
    let busy = server.on(Op::SetData).times(2).answer(ErrorCode::THROTTLED_OP);
    retry.run(|client| client.set_data("/n", b"3", None)).await.unwrap();
    assert_eq!(busy.count(), 2, "that one was certainly not applied");
}

#[tokio::test(start_paused = true)]
async fn retried_create_adopts_only_its_own_ephemeral() {
    let (server, client, retry) = retrying().await;
    let create = async |path, data| retry.create(path, data, CreateMode::Ephemeral).await;
    let lost = server.on(Op::Create2).times(2).apply_then_drop_reply();
    let Created { path, stat } = create("/e", b"x").await.unwrap();
    assert_eq!((path.as_str(), stat.ephemeral_owner, lost.count()), ("/e", client.session_id(), 2));

    // The node is the session's own, from an earlier create.
    server.on(Op::Create2).drop_before_applying();
    let error = unknown(create("/e", b"x").await);
    assert_eq!(error.code(), Some(ErrorCode::NODE_EXISTS));
    assert_eq!(
        error.to_string(),
        "create /e: NodeExists (-110) (an earlier attempt may have been applied)"
    );

    // Another session creates the node between the attempts.
    let other = client_of(&server, 0).await;
    server.on(Op::Create2).session(client.session_id()).drop_before_applying();
    let (mine, theirs) =
        tokio::join!(create("/f", b"x"), other.create("/f", b"x", CreateMode::Ephemeral));
    assert_eq!(unknown(mine).code(), Some(ErrorCode::NODE_EXISTS));
    theirs.unwrap();

    // Without a lost reply there is no need to inspect the existing node.
    let error = create("/e", b"x").await.unwrap_err();
    assert_eq!(
        (error.code(), error.outcome()),
        (Some(ErrorCode::NODE_EXISTS), Outcome::NotApplied)
    );
}

#[tokio::test(start_paused = true)]
async fn retried_create_adopts_no_persistent_node() {
    let (server, client, retry) = retrying().await;
    server.on(Op::Create2).drop_before_applying();
    retry.create("/p", b"", CreateMode::Persistent).await.unwrap();
    server.on(Op::Create2).apply_then_drop_reply();
    let error = unknown(retry.create("/q", b"", CreateMode::Persistent).await);
    assert_eq!(error.code(), Some(ErrorCode::NODE_EXISTS));
    assert!(client.exists("/q").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn retried_set_data_succeeds_on_next_version_with_same_data() {
    let (server, client, retry) = retrying().await;
    server.on(Op::SetData).apply_then_drop_reply();
    assert_eq!(retry.set_data("/n", b"1", Some(0)).await.unwrap().version, 1);
    server.on(Op::SetData).drop_before_applying();
    assert_eq!(retry.set_data("/n", b"2", Some(1)).await.unwrap().version, 2);

    let other = client_of(&server, 0).await;
    server.on(Op::SetData).session(client.session_id()).drop_before_applying();
    let (mine, theirs) =
        tokio::join!(retry.set_data("/n", b"3", Some(2)), other.set_data("/n", b"other", Some(2)));
    theirs.unwrap();
    assert_eq!(unknown(mine).code(), Some(ErrorCode::BAD_VERSION));
    let error = retry.set_data("/n", b"other", Some(2)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "nothing was lost, so nothing is taken");
}

#[tokio::test(start_paused = true)]
async fn retried_delete_succeeds_if_node_is_gone_after_lost_reply() {
    let (server, client, retry) = retrying().await;
    let lost = server.on(Op::Delete).apply_then_drop_reply();
    retry.delete("/n", Some(0)).await.unwrap();
    assert_eq!((lost.count(), client.exists("/n").await.unwrap()), (1, None));
    let error = retry.delete("/n", None).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(ErrorCode::NO_NODE), Outcome::NotApplied));
}

#[tokio::test(start_paused = true)]
async fn retry_policy_limits_attempts_and_time() {
    let (server, client, _) = retrying().await;
    let busy = server.on(Op::Exists).always().answer(ErrorCode::THROTTLED_OP);
    let times = async |policy: RetryPolicy| {
        let (before, began) = (busy.count(), now());
        let error = client.retry(policy).exists("/n").await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::THROTTLED_OP));
        (busy.count() - before, began.elapsed())
    };
    assert_eq!(times(RetryPolicy::none()).await.0, 1);
    let (count, took) = times(RetryPolicy::fixed(10 * MS).max_attempts(4)).await;
    assert!(count == 4 && took >= 30 * MS && took < 40 * MS, "{count} in {took:?}");
    let (count, took) = times(RetryPolicy::fixed(10 * MS).timeout(55 * MS)).await;
    assert!((5..=6).contains(&count) && took < 55 * MS, "{count} in {took:?}");
    let (count, took) = times(RetryPolicy::exponential(10 * MS, 40 * MS).max_attempts(5)).await;
    assert!(count == 5 && took >= 55 * MS && took < 115 * MS, "{count} in {took:?}");
}

#[tokio::test(start_paused = true)]
async fn policy_until_session_end_pauses_as_the_cause_requires() {
    let (server, client, _) = retrying().await;
    let policy = RetryPolicy::until_session_end();
    let took = async |client: &Client| {
        let began = now();
        (client.retry(policy).exists("/n").await, began.elapsed())
    };
    drop(server.on(Op::Exists).apply_then_drop_reply());
    let (found, lost) = took(&client).await;
    assert!(found.is_ok() && lost < 2 * MS, "{lost:?}: only the reconnect");
    drop(server.on(Op::Exists).times(2).answer(ErrorCode::THROTTLED_OP));
    let (found, throttled) = took(&client).await;
    assert!(found.is_ok() && throttled >= 200 * MS && throttled < 210 * MS, "{throttled:?}");

    let slow = server.on(Op::Exists).always().delay(20 * MS);
    let (found, timed_out) = took(&client.with_timeout(5 * MS)).await;
    assert_eq!(*found.unwrap_err().kind(), ErrorKind::TimedOut);
    let timeouts = usize::try_from(TIMED_OUT_MAX).unwrap() + 1;
    assert_eq!(usize::try_from(slow.count()).unwrap(), timeouts);
    assert!(timed_out < Duration::from_secs(20), "{timed_out:?}, of a session timeout of 10 s");
}

/// The time limit also ends an attempt in progress: a silent server does not extend it.
#[tokio::test(start_paused = true)]
async fn retry_time_limit_ends_attempt_in_progress() {
    let (server, client, _) = retrying().await;
    server.on(Op::Exists).always().never_answer();
    let began = now();
    let policy = RetryPolicy::fixed(10 * MS).timeout(300 * MS);
    let error = client.retry(policy).exists("/n").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut);
    assert!(began.elapsed() >= 300 * MS && began.elapsed() < 310 * MS, "{:?}", began.elapsed());
}

/// The shorter of both limits applies to each attempt.
#[tokio::test(start_paused = true)]
async fn handle_timeout_ends_each_attempt_of_a_retry() {
    let (server, client, _) = retrying().await;
    let unanswered = server.on(Op::Exists).always().never_answer();
    let began = now();
    let policy = RetryPolicy::fixed(10 * MS).timeout(300 * MS);
    let error = client.with_timeout(50 * MS).retry(policy).exists("/n").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut);
    assert!(began.elapsed() < 310 * MS, "{:?}", began.elapsed());
    assert_eq!(unanswered.count(), 5, "one attempt every 60 ms");
}

#[tokio::test(start_paused = true)]
async fn retries_stop_when_session_ends() {
    let (server, client, _) = retrying().await;
    server.on(Op::Exists).always().answer(ErrorCode::THROTTLED_OP);
    let retry = client.retry(RetryPolicy::fixed(Duration::from_secs(3600)));
    let began = now();
    let (result, ()) = tokio::join!(retry.exists("/n"), async {
        tokio::time::sleep(100 * MS).await; // reason: a time in the middle of the pause
        client.close().await;
    });
    assert_eq!(result.unwrap_err().origin(), ErrorOrigin::Session);
    assert!(began.elapsed() < Duration::from_secs(1), "and not after the pause");
}

/// The random pauses are derived from the session's seed.
#[tokio::test(start_paused = true)]
async fn retry_pauses_repeat_with_same_seed() {
    let mut took = Vec::new();
    for _ in 0..2 {
        let (server, client, _) = retrying().await;
        server.on(Op::Exists).times(6).answer(ErrorCode::THROTTLED_OP);
        let began = now();
        let policy = RetryPolicy::exponential(100 * MS, Duration::from_secs(2));
        client.retry(policy).exists("/n").await.unwrap();
        took.push(began.elapsed());
    }
    assert_eq!(took[0], took[1]);
}

#[allow(clippy::disallowed_methods, reason = "the paused clock, which moves while everybody waits")]
fn now() -> Instant {
    Instant::now()
}

/// The second attempt finds a node of another session, which is deleted before the client reads it.
#[tokio::test(start_paused = true)]
async fn retried_create_succeeds_after_foreign_node_is_deleted() {
    let (server, [client, other]) = connected().await;
    other.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    server.on(Op::Create2).drop_before_applying();
    let read = server.on(Op::GetData).answer(ErrorCode::NO_NODE);
    let going = other.clone();
    let gone = tokio::spawn(async move {
        tokio::time::sleep(15 * MS).await; // reason: within the second pause of 10 ms
        going.delete("/e", None).await.unwrap();
    });
    let retry = client.retry(RetryPolicy::fixed(10 * MS));
    let made = retry.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(made.stat.ephemeral_owner, client.session_id());
    assert_eq!(read.count(), 1);
    gone.await.unwrap();
}

/// Only the session's own node, as this call would have made it, counts as the result of the lost
/// attempt. Otherwise two callers would rely on one node.
#[tokio::test(start_paused = true)]
async fn retried_create_rejects_own_node_that_differs() {
    for (data, changes, is_earlier) in
        [(b"y", false, false), (b"y", true, false), (b"x", false, true)]
    {
        let (server, [client]) = connected().await;
        let ephemeral = CreateMode::Ephemeral;
        if is_earlier {
            client.create("/e", data, ephemeral).await.unwrap();
        }
        server.on(Op::Create2).drop_before_applying();
        let another = async {
            if is_earlier {
                return;
            }
            tokio::time::sleep(5 * MS).await; // reason: within the pause of 10 ms
            client.create("/e", data, ephemeral).await.unwrap();
            if changes {
                client.set_data("/e", b"x", None).await.unwrap();
            }
        };
        let retry = client.retry(RetryPolicy::fixed(10 * MS));
        let (mine, ()) = tokio::join!(retry.create("/e", b"x", ephemeral), another);
        let error = unknown(mine);
        assert_eq!(error.code(), Some(ErrorCode::NODE_EXISTS), "{changes} {is_earlier}");
    }
}

#[tokio::test(start_paused = true)]
async fn retried_create_returns_the_error_of_its_last_attempt() {
    let (server, client, retry) = retrying().await;
    let lost = server.on(Op::Create2).drop_before_applying();
    let error = unknown(retry.create("/none/e", b"", CreateMode::Ephemeral).await);
    assert_eq!((error.code(), lost.count()), (Some(ErrorCode::NO_NODE), 1), "without a parent");

    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    server.on(Op::Create2).drop_before_applying();
    let unreadable = server.on(Op::GetData).answer(ErrorCode::NO_AUTH);
    let error = unknown(retry.create("/e", b"", CreateMode::Ephemeral).await);
    assert_eq!((error.code(), unreadable.count()), (Some(ErrorCode::NO_AUTH), 1));

    // A persistent node does not record its creator, so there is no need to read it.
    server.on(Op::Create2).drop_before_applying();
    let read = server.on(Op::GetData).answer(ErrorCode::NO_NODE);
    let error = unknown(retry.create("/n", b"0", CreateMode::Persistent).await);
    assert_eq!((error.code(), read.count()), (Some(ErrorCode::NODE_EXISTS), 0));
}

/// A change counts as that of the lost attempt only if it is the next one, and newer than the call.
#[tokio::test(start_paused = true)]
async fn retried_set_data_rejects_other_changes_to_same_data() {
    let (server, client, retry) = retrying().await;
    // An earlier change of this session.
    client.set_data("/n", b"1", Some(0)).await.unwrap();
    server.on(Op::SetData).drop_before_applying();
    let error = unknown(retry.set_data("/n", b"1", Some(0)).await);
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    // Two changes of another session, after the call.
    let other = client_of(&server, 0).await;
    server.on(Op::SetData).session(client.session_id()).drop_before_applying();
    let (mine, ..) = tokio::join!(
        retry.set_data("/n", b"2", Some(1)),
        other.set_data("/n", b"2", Some(1)),
        other.set_data("/n", b"2", Some(2)),
    );
    assert_eq!(unknown(mine).code(), Some(ErrorCode::BAD_VERSION));
}

/// A loop that succeeds now and then may fail often in the long run, but not for ever.
#[tokio::test(start_paused = true)]
async fn attempts_start_again_after_a_reset_within_their_time() {
    let (_server, [client]) = connected().await;
    let policy = RetryPolicy::fixed(10 * MS).max_attempts(3).timeout(68 * MS);
    let mut attempts = policy.begin();
    let mut allowed = Vec::new();
    for _ in 0..4 {
        for _ in 0..2 {
            allowed.push(attempts.pause(&client).await);
        }
        attempts.reset();
    }
    assert_eq!(allowed, [true, true, true, true, true, true, false, false], "70 ms are too long");

    let mut attempts = policy.begin();
    assert!(attempts.pause(&client).await && attempts.pause(&client).await);
    assert!(!attempts.pause(&client).await, "without a reset");
}
