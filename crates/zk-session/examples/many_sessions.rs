//! Keeps many sessions in one process alive under load for a while.
//!
//! Each session has an ephemeral node, a claim to its lease, and sends a request now and then. One
//! more session sends requests as fast as the server answers them. The example prints each lost
//! lease with the session's statistics. At the end it prints the numbers of interruptions, expiries
//! and lost leases, and the memory of the process.
//!
//! ```text
//! cargo run --release --package zk-session --example many_sessions -- \
//!     [HOST:PORT [SESSIONS [SECONDS [TIMEOUT_SECONDS]]]]
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example that prints")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_session::{Client, Config, CreateMode, SessionEvent};

#[derive(Default)]
struct Tally {
    answers: AtomicU64,
    suspended: AtomicU64,
    ended: AtomicU64,
    leases_lost: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let sessions: u64 = arguments.next().map_or(Ok(1_000), |it| it.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |it| it.parse())?;
    let timeout: u64 = arguments.next().map_or(Ok(10), |it| it.parse())?;
    let tally = Arc::new(Tally::default());
    let end = clock() + Duration::from_secs(seconds);

    let mut tasks = Vec::new();
    for number in 0..sessions {
        let config = Config::new(&address)?.session_timeout(Duration::from_secs(timeout));
        let client = config.connect_timeout(Duration::from_secs(30)).connect().await?;
        tasks.push(tokio::spawn(live(client, number, end, tally.clone())));
    }
    println!("{sessions} sessions are open; {seconds} s begin");
    let load = tokio::spawn(load(Client::connect(&address).await?, end, tally.clone()));
    while clock() < end {
        sleep(Duration::from_secs(5)).await;
        eprintln!("{} answers", tally.answers.load(Ordering::Relaxed));
    }
    load.await?;
    let mut alive = 0;
    for task in tasks {
        alive += u64::from(task.await?);
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{alive} of {sessions} sessions and their nodes are there; {} interruptions, {} ends, \
         {} leases lost; {} answers",
        count(&tally.suspended),
        count(&tally.ended),
        count(&tally.leases_lost),
        count(&tally.answers)
    );
    println!("{}", memory());
    if alive == sessions { Ok(()) } else { Err("not all of them lived".into()) }
}

/// Returns true if the session, its node and its lease lasted to the end.
async fn live(client: Client, number: u64, end: Instant, tally: Arc<Tally>) -> bool {
    let path = format!("/many-{number}-{:x}", client.session_id());
    if client.create(&path, b"", CreateMode::Ephemeral).await.is_err() {
        return false;
    }
    let claim = client.claim_lease();
    let term = claim.renew().await.ok();
    let lost = async {
        let Some(term) = term else { return };
        let reason = claim.lost(term).await;
        let stats = client.stats();
        println!(
            "session {number}: {reason}; {:?}, connected to {:?}",
            stats.lease, stats.connected_to
        );
        std::future::pending::<()>().await;
    };
    let mut events = client.events();
    let watch = async {
        while let Some(event) = events.next().await {
            match event {
                SessionEvent::Suspended { .. } => tally.suspended.fetch_add(1, Ordering::Relaxed),
                SessionEvent::Expired { .. } => tally.ended.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    };
    let ask = async {
        let mut pause = 500 + number % 500;
        while clock() < end {
            sleep(Duration::from_millis(pause)).await;
            if client.exists(&path).await.is_ok() {
                tally.answers.fetch_add(1, Ordering::Relaxed);
            }
            pause = 500 + (pause * 7) % 500;
        }
    };
    tokio::select! {
        () = watch => return false,
        () = lost => {}
        () = ask => {}
    }
    let held = term.is_some_and(|term| claim.holds(term));
    tally.leases_lost.fetch_add(u64::from(!held), Ordering::Relaxed);
    let there = matches!(client.exists(&path).await, Ok(Some(_)));
    client.close().await;
    held && there
}

async fn load(client: Client, end: Instant, tally: Arc<Tally>) {
    let mut on_their_way = std::collections::VecDeque::new();
    while clock() < end {
        while on_their_way.len() < 200 {
            on_their_way.push_back(client.set_data("/many-load", b"x", None));
        }
        if let Some(answer) = on_their_way.pop_front() {
            drop(answer.await); // the node need not exist: a rejected write is a reply too
            tally.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "an example has a clock")]
fn clock() -> Instant {
    Instant::now()
}

/// Returns the peak memory and the number of threads, as the kernel reports them.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines =
        status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("Threads"));
    lines.collect::<Vec<_>>().join(", ")
}
