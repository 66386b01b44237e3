//! One round of the sale: it starts the processes of the buyers, and serves them in the shop.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::str::{FromStr, SplitWhitespace};
use std::sync::{Arc, Barrier, Mutex};

use tokio::task::JoinSet;

use crate::shop::{Holding, Shop, Token};
use crate::{Failure, Plan, buyers, now_ns};

/// Sells the plan's items to its buyers. `lock` has the arguments of the lock; see [`buyers::run`].
pub(crate) async fn run(plan: &Plan, lock: &[&str]) -> Result<Shop, Failure> {
    let shop = Arc::new(Mutex::new(Shop { stock: plan.items, ..Shop::default() }));
    let all_ready = Arc::new(Barrier::new(usize::try_from(plan.processes)?));
    let mut serving = JoinSet::new();
    for number in 0..plan.processes {
        let one_more = u32::from(number < plan.buyers % plan.processes);
        let buyers = plan.buyers / plan.processes + one_more;
        let mut process = Command::new(env::current_exe()?);
        process.args([buyers::PROCESS, &buyers.to_string()]).args(lock);
        let process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (shop, all_ready) = (shop.clone(), all_ready.clone());
        serving.spawn_blocking(move || serve(process, &shop, &all_ready));
    }
    while let Some(served) = serving.join_next().await {
        served??;
    }
    Ok(std::mem::take(&mut *shop.lock()?))
}

/// Answers the requests of one process, one line each, until the process ends.
fn serve(mut process: Child, shop: &Mutex<Shop>, all_ready: &Barrier) -> Result<(), Failure> {
    let (Some(mut stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
        return Err("a process of buyers has no pipes".into());
    };
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if line == buyers::READY {
            all_ready.wait();
        }
        let reply = answer(&line, &mut *shop.lock()?)?;
        writeln!(stdin, "{}", reply.map_or_else(|refusal| refusal, |number| number.to_string()))?;
    }
    match process.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("a process of buyers failed: {status}").into()),
    }
}

/// Returns the shop's answer to a request: a number, or a refusal.
fn answer(line: &str, shop: &mut Shop) -> Result<Result<u32, String>, Failure> {
    let mut words = line.split_whitespace();
    match words.next() {
        Some(buyers::READY) => {
            shop.opened_ns = now_ns();
            Ok(Ok(0))
        }
        Some("read") => Ok(shop.read(token(&mut words)?)),
        Some("sell") => Ok(shop.sell(token(&mut words)?, word(&mut words)?)),
        Some("held") => {
            let token = token(&mut words)?;
            let (granted_ns, release_called_ns) = (word(&mut words)?, word(&mut words)?);
            shop.holdings.push(Holding { token, granted_ns, release_called_ns });
            Ok(Ok(0))
        }
        _ => Err(format!("a process of buyers sent `{line}`").into()),
    }
}

fn token(words: &mut SplitWhitespace<'_>) -> Result<Token, Failure> {
    Ok((word(words)?, word(words)?))
}

fn word<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T, Failure> {
    let word = words.next().and_then(|word| word.parse().ok());
    word.ok_or_else(|| "a request of a buyer lacks a number".into())
}
