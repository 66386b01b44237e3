//! Measures how long many clients take to count together, with and without a lock after a number of
//! conflicts.
//!
//! `cargo run --profile bench -p zk-coordination --example contended_counter -- 127.0.0.1:2181 64`
//!
//! Each client has a session of its own, and adds 1 without a pause. The ways take turns. The program
//! checks the sums, and leaves `/contended-counter` behind.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::time::{Duration, Instant};

use zk_coordination::AtomicLong;
use zk_coordination::session::Client;

const PATH: &str = "/contended-counter/number";
const LOCK: &str = "/contended-counter/lock";
const ROUNDS: usize = 7;
/// Additions of each client in a round.
const ADDITIONS: i64 = 16;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Time of a round, its slowest addition, and the requests of all clients.
#[derive(Clone, Copy, Debug)]
struct Round {
    time: Duration,
    slowest: Duration,
    requests: u64,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, count] = &arguments[..] else {
        return Err("usage: contended_counter SERVERS CLIENTS".into());
    };
    let mut clients = Vec::new();
    for _ in 0..count.parse()? {
        clients.push(Client::connect(servers).await?);
    }
    let ways = [None, Some(8), Some(3), Some(1)];
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, rounds) in ways.into_iter().zip(&mut rounds) {
            rounds.push(count_together(&clients, way).await?);
        }
    }
    println!("{} clients, {ADDITIONS} additions each, {ROUNDS} rounds", clients.len());
    let base = median(&rounds[0], |round| round.time).as_secs_f64();
    for (way, rounds) in ways.into_iter().zip(&rounds) {
        let name = match way {
            None => "no lock".to_owned(),
            Some(after) => format!("lock after {after} conflicts"),
        };
        let time = median(rounds, |round| round.time);
        let slowest = median(rounds, |round| round.slowest);
        let requests = median(rounds, |round| round.requests);
        let part = time.as_secs_f64() / base;
        println!(
            "{name:24} median {time:9.1?} (ratio {part:.2}), slowest addition {slowest:8.1?}, \
             {requests} requests"
        );
    }
    Ok(())
}

async fn count_together(clients: &[Client], way: Option<u32>) -> Outcome<Round> {
    let counter = |client: &Client| {
        let counter = AtomicLong::new(client, PATH)?;
        match way {
            Some(after) => counter.promote_to_lock(LOCK, after),
            None => Ok(counter),
        }
    };
    let sent = || clients.iter().map(|client| client.stats().frames_sent).sum::<u64>();
    if let Some(client) = clients.first() {
        counter(client)?.set(0).await?;
    }
    let (sent_before, start) = (sent(), Instant::now());
    let mut counting = Vec::new();
    for client in clients {
        let counter = counter(client)?;
        counting.push(tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..ADDITIONS {
                let start = Instant::now();
                counter.increment().await?;
                slowest = slowest.max(start.elapsed());
            }
            Outcome::Ok((slowest, counter.get().await?))
        }));
    }
    let (mut slowest, mut sum) = (Duration::ZERO, 0);
    for counting in counting {
        let (of_client, number) = counting.await??;
        (slowest, sum) = (slowest.max(of_client), sum.max(number));
    }
    let round = Round { time: start.elapsed(), slowest, requests: sent() - sent_before };
    if i64::try_from(clients.len())? * ADDITIONS == sum {
        Ok(round)
    } else {
        Err(format!("the sum is {sum}").into())
    }
}

fn median<T: Ord>(rounds: &[Round], of: impl Fn(&Round) -> T) -> T {
    let mut values: Vec<T> = rounds.iter().map(of).collect();
    values.sort();
    values.swap_remove(values.len() / 2)
}
