//! Tests of a holder that is killed or paused for too long: the next contender acquires the lock in
//! time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::{Duration, Instant};

use zk_recipes::session::Client;
use zk_tests::{
    Journal, Running, Scratch, Settings, Standalone, Zk, connect, contenders, now, pass, poll,
    zookeeper_with,
};

#[tokio::test(flavor = "multi_thread")]
async fn next_waiter_acquires_within_timeout_and_tick_after_kill() {
    let Some(scene) = Scene::start().await else { return };
    let mut holder = scene.hold(zk_tests::HOLD).await;
    for _ in 0..ROUNDS {
        let next = scene.queue().await;
        let killed_at = now();
        holder.signal("KILL");
        scene.expect_next_within(killed_at);
        let ended = holder.wait(LIMIT);
        assert_eq!((ended.code(), ended.signal()), (None, Some(9)));
        holder = next;
    }
    drop(holder);
    assert_eq!(scene.journal.entered().len(), 1 + ROUNDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_holder_ends_its_command_when_it_resumes() {
    let Some(scene) = Scene::start().await else { return };
    let scratch = Scratch::new();
    let told = scratch.path("told");
    let script = format!(
        r#"exec 3<&0; trap 'echo terminated >"{}"; exit 0' TERM
           echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"
           cat <&3 >/dev/null & wait"#,
        told.display()
    );
    let holder = scene.hold(&script).await;
    let next = scene.queue().await;

    let paused_at = now();
    holder.signal("STOP");
    scene.expect_next_within(paused_at);
    // reason: the pause must be longer than twice the session timeout.
    pass(paused_at, 2 * TIMEOUT);
    assert!(!told.exists());
    holder.signal("CONT");
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{}", ended.stderr);
    assert!(ended.stderr.contains("the lock was lost"), "{:?}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{:?}", ended.stderr);
    assert_eq!(scratch.read("told"), "terminated\n");
    drop(next);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_ignores_loss_is_killed_after_grace_period() {
    let Some(scene) = Scene::start().await else { return };
    let script = r#"trap '' TERM; echo $$ >&2
        echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"; exec cat >/dev/null"#;
    let holder = scene.hold(script).await;
    let child: u32 = holder.stderr().trim().parse().unwrap();
    let next = scene.queue().await;

    let paused_at = now();
    holder.signal("STOP");
    scene.expect_next_within(paused_at);
    // The holder runs from some moment of this call on, and this thread may run again later.
    let continued_at = now();
    holder.signal("CONT");
    let ended = holder.wait(GRACE + LIMIT);
    let took = continued_at.elapsed();
    assert_eq!(ended.code(), Some(74), "{}", ended.stderr);
    assert!(took >= GRACE, "killed after {took:?}");
    assert!(took < GRACE + ALLOWANCE + CLOSING, "killed after {took:?}");
    // The command's parent reaped it before the parent itself ended.
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
    drop(next);
}

/// A server with short ticks, and a lock.
struct Scene {
    observer: Client,
    journal: Journal,
    command: Zk,
    _server: Standalone,
}

impl Scene {
    async fn start() -> Option<Self> {
        let server = zookeeper_with(&Settings::default().tick_ms(500))?;
        let observer = connect(&server.connect_string(), OBSERVER_TIMEOUT).await;
        let journal = Journal::new();
        let command = Zk::new(server.connect_string()).session_timeout(TIMEOUT).journal(&journal);
        Some(Self { observer, journal, command, _server: server })
    }

    /// Starts the first holder and waits until it holds the lock.
    async fn hold(&self, script: &str) -> Running {
        let holder = self.command.lock(PATH, script);
        poll(LIMIT, || (self.journal.entered().len() == 1).then_some(())).expect("nobody got in");
        contenders(&self.observer, PATH, 1).await;
        holder
    }

    /// Starts the next contender and waits until it queues.
    async fn queue(&self) -> Running {
        let next = self.command.lock(PATH, zk_tests::HOLD);
        contenders(&self.observer, PATH, 2).await;
        next
    }

    /// Waits for the next holder, which must acquire within a session timeout and a tick.
    fn expect_next_within(&self, silent_since: Instant) {
        let before = self.journal.entered();
        let next = poll(TIMEOUT + TICK + ALLOWANCE, || {
            let entered = self.journal.entered();
            (entered.len() > before.len()).then(|| entered[before.len()].clone())
        });
        let took = silent_since.elapsed();
        let next = next.unwrap_or_else(|| panic!("nobody got in within {took:?}"));
        println!("the next holder got in after {} ms", took.as_millis());
        assert!(took <= TIMEOUT + TICK + ALLOWANCE, "the next got in after {took:?}");
        let last = before.last().unwrap();
        assert!(next.token > last.token, "{next:?} after {last:?}");
    }
}

const PATH: &str = "/locks/backup";
const TICK: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest session timeout that the tick allows.
const OBSERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for starting the command, and for a machine with other work.
const ALLOWANCE: Duration = Duration::from_secs(1);
/// Time that a command has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Limit for closing the session at the server.
const CLOSING: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(10);
const ROUNDS: usize = 3;
