//! The lock of `zookeeper-client`, as a contestant of `cargo xtask bench handoff`.

use tokio::sync::mpsc;
use zk_benches::contest::{self, Clock, Hold, Job, Kind, Refusal, sequence_of};
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
    let clock = Clock::start();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for waiter in 0..job.waiters {
        let client = clients[waiter % job.sessions].clone();
        let (job, tell) = (job.clone(), tell.clone());
        tasks.push(tokio::spawn(async move {
            if let Err(refusal) = contend(&client, &job, clock, &tell).await {
                // Whoever listens ends with the first failure.
                let _ = tell.send(Err(refusal));
            }
        }));
    }
    drop(tell);
    let mut holds = Vec::with_capacity(job.holds);
    while holds.len() < job.holds {
        match told.recv().await {
            Some(hold) => holds.push(hold?),
            None => break,
        }
    }
    for task in tasks {
        task.abort();
    }
    Ok(holds)
}

async fn contend(
    client: &Client,
    job: &Job,
    clock: Clock,
    tell: &mpsc::UnboundedSender<Result<Hold, Refusal>>,
) -> Result<(), Refusal> {
    loop {
        let prefix = LockPrefix::new_curator(&job.path, "lock-")?;
        let call = clock.now();
        let lock = client.lock(prefix, b"", Acls::anyone_all()).await?;
        let owner = clock.now();
        let order = sequence_of(lock.lock_path());
        if !job.hold.is_zero() {
            tokio::time::sleep(job.hold).await;
        }
        let release = clock.now();
        if job.kind == Kind::Uncontended {
            // Its own release is a drop, which does not tell when the lock is free.
            client.delete(lock.lock_path(), None).await?;
            std::mem::forget(lock);
        } else {
            drop(lock);
        }
        let released = clock.now();
        let hold = Hold { call, owner, release, released, order, shared: false };
        if tell.send(Ok(hold)).is_err() || !job.again {
            return Ok(());
        }
    }
}
