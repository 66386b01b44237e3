//! An HTTP service with a state that outlives its sessions: it counts requests in ZooKeeper, under
//! a lock.
//!
//! ```sh
//! cargo run -p zk-recipes --example http_service             # with an in-memory server of its own
//! cargo run -p zk-recipes --example http_service -- HOST:PORT
//! curl -X POST localhost:8080/visits
//! curl localhost:8080/health
//! curl localhost:8080/metrics
//! ```

#![allow(clippy::disallowed_macros, reason = "a program that people watch")]

mod service;

use std::error::Error;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use zk_recipes::session::{Config, SessionManager};
use zk_testing::TestServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let own_server; // the server runs until this variable is dropped
    let connect_string = match std::env::args().nth(1) {
        Some(given) => given,
        None => {
            own_server = TestServer::start().await?;
            own_server.connect_string()
        }
    };
    // The service also starts while no server can be reached, and is ready later.
    let sessions = SessionManager::start(Config::new(&connect_string)?.create_chroot())?;
    let mut changes = sessions.changes();
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            eprintln!("{change}");
        }
    });
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("POST http://{}/visits", listener.local_addr()?);
    let serving = axum::serve(listener, service::routes(sessions.clone()));
    serving.with_graceful_shutdown(interrupted(signal(SignalKind::terminate())?)).await?;
    sessions.close().await; // releases the locks of requests in progress
    Ok(())
}

async fn interrupted(mut terminated: Signal) {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
