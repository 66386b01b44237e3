//! The lock of `zookeeper-client`, as a contestant of `cargo xtask bench handoff`.

use std::sync::Arc;

use tokio::sync::mpsc;
use zk_benches::contest::{self, Board, Clock, Hold, Job, Kind, Refusal, sequence_of};
use zookeeper_client::{Acls, Client, LockPrefix};

fn main() -> std::io::Result<()> {
    let mut builder = match std::env::args().nth(1).as_deref() {
        Some("current") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    contest::serve(|job| runtime.block_on(run(job)))
}

async fn run(job: &Job) -> Result<Vec<Hold>, Refusal> {
    if !matches!(job.kind, Kind::Handoff | Kind::Uncontended) {
        return Err(Refusal::none("it has mutual exclusion locks only"));
    }
    let mut clients = Vec::new();
    for _ in 0..job.sessions {
        let timeout = std::time::Duration::from_secs(40);
        let connector = Client::connector().with_session_timeout(timeout);
        clients.push(connector.connect(&job.address).await?);
    }
    let clock = Clock;
    let board = Arc::new(Board::new(job));
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for waiter in 0..job.waiters {
        let client = clients[waiter % job.sessions].clone();
        let (job, board, tell) = (job.clone(), Arc::clone(&board), tell.clone());
        tasks.push(tokio::spawn(async move {
            if let Err(refusal) = contend(&client, &job, clock, &board, &tell).await {
                // The receiver stops at the first failure, so this send may fail.
                let _ = tell.send(Err(refusal));
            }
        }));
    }
    drop(tell);
    // The channel closes without a message if no task contends any more.
    if let Some(outcome) = told.recv().await {
        outcome?;
    }
    let holds = board.take();
    for task in tasks {
        task.abort();
    }
    Ok(holds)
}

async fn contend(
    client: &Client,
    job: &Job,
    clock: Clock,
    board: &Board,
    tell: &mpsc::UnboundedSender<Result<(), Refusal>>,
) -> Result<(), Refusal> {
    loop {
        let prefix = LockPrefix::new_curator(&job.path, "lock-")?;
        let call = clock.now();
        let lock = client.lock(prefix, b"", Acls::anyone_all()).await?;
        let owner = clock.now();
        let order = sequence_of(lock.lock_path());
        if !job.hold.is_zero() {
            // tokio's timers fire up to a millisecond late. The other contestants sleep in threads.
            let hold = job.hold;
            tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await?;
        }
        let release = clock.now();
        if job.kind == Kind::Uncontended {
            // The release of this client is a drop, which does not report when the lock is free.
            client.delete(lock.lock_path(), None).await?;
            std::mem::forget(lock);
        } else {
            drop(lock);
        }
        let released = clock.now();
        let hold = Hold { call, owner, release, released, order, shared: false };
        if board.add(hold) {
            // The send fails only if another task has failed before.
            let _ = tell.send(Ok(()));
        }
        if !job.again {
            return Ok(());
        }
    }
}
