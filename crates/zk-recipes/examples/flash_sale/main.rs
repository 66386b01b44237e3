//! The stock race: many buyers in several processes read the stock from an SQLite file, wait a
//! short time, and write it back. They do this without a lock, with a `Mutex`, and with a `Mutex` that
//! has a local queue.
//!
//! ```text
//! cargo run --release -p zk-recipes --example flash_sale
//! ```
//!
//! It locks with the in-memory server of `zk-testing`, which it starts itself, or with a real
//! ensemble: `-- --connect 127.0.0.1:2181`.
//!
//! Without the lock two buyers read the same number, and the shop sells more than its stock. With
//! the lock it sells exactly its stock. With a local queue the buyers of a process share a node, and
//! most hand-offs need no request. `worker.rs` shows how a buyer uses the lock. `shop.rs`
//! shows how a resource checks the fencing token; without that check no lock is safe from a holder
//! that was paused.
//!
//! One process runs the sale (`sale.rs`, `locker.rs`, `round.rs`, `crew.rs`) and starts this
//! program again for the buyers (`worker.rs`). The processes exchange lines of text (`line.rs`).
//! The sale checks the reports (`checks.rs`) and prints them (`table.rs`).

mod args;
mod checks;
mod clock;
mod crew;
mod failure;
mod line;
mod locker;
mod progress;
mod round;
mod sale;
mod shop;
mod stop;
mod table;
mod token;
mod worker;

use std::process::ExitCode;

use args::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            table::print(args::HELP);
            Ok(())
        }
        Ok(Command::Sale(plan)) => sale::run(&plan).await,
        // A worker reports its failure to the process that started it.
        Ok(Command::Worker(job)) => return worker::run(job).await,
        Err(failure) => Err(failure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("flash_sale: {failure}");
            failure.exit_code()
        }
    }
}
