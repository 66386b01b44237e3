//! A program that acquires a lock and ends while it holds it.
//!
//! Usage: `program_end CONNECT_STRING PATH DRIVEN_BY END`. `DRIVEN_BY` is `current-thread`,
//! `multi-thread`, `dedicated-thread` or `blocking`. `END` is `return`, `error` or `panic`. The
//! program prints the path of the lock's node.

use std::error::Error;
use std::time::Duration;

use tokio::runtime::Builder;
use zk_recipes::session::Config;
use zk_recipes::{Mutex, blocking};

/// The longest timeout that the servers of the tests grant.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

type Ended = Result<(), Box<dyn Error>>;

fn main() -> Ended {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [connect_string, path, driven_by, end] = &given[..] else {
        return Err("usage: program_end CONNECT_STRING PATH DRIVEN_BY END".into());
    };
    let config = Config::new(connect_string)?.session_timeout(SESSION_TIMEOUT);
    match driven_by.as_str() {
        "current-thread" => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(hold(config, path, end))
        }
        "multi-thread" => {
            let runtime = Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(hold(config, path, end))
        }
        "dedicated-thread" => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(hold(config.dedicated_thread(), path, end))
        }
        "blocking" => {
            let client = blocking::Client::connect_with(config)?;
            let guard = blocking::Mutex::new(&client, path)?.acquire()?;
            println!("{}", guard.node());
            end_by(end)
        }
        other => Err(format!("{other}: nothing that a session is driven by").into()),
    }
}

async fn hold(config: Config, path: &str, end: &str) -> Ended {
    let client = config.connect().await?;
    let guard = Mutex::new(&client, path)?.acquire().await?;
    println!("{}", guard.node());
    end_by(end)
}

fn end_by(end: &str) -> Ended {
    match end {
        "return" => Ok(()),
        "error" => Err("on purpose".into()),
        _ => panic!("on purpose"),
    }
}
