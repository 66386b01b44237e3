//! Tests of the example services, with sessions that expire while they work.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_macros, reason = "what the examples print")]

#[path = "../../examples/sqlite_worker/ledger.rs"]
mod ledger;
#[path = "../../examples/http_service/service.rs"]
mod service;
#[path = "../../examples/sqlite_worker/worker.rs"]
mod worker;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::session::{Config, SessionManager};
use zk_testing::TestServer;

use crate::ledger::Ledger;

async fn sessions(server: &TestServer) -> SessionManager {
    SessionManager::connect(Config::new(&server.connect_string()).unwrap()).await.unwrap()
}

/// Fails a test that hangs.
async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it hangs")
}

/// Sends a request, and returns the status line and the body of the answer.
async fn request(address: &str, line: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn http_service_goes_on_after_its_session_expired() {
    let server = TestServer::start().await.unwrap();
    let sessions = sessions(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(axum::serve(listener, service::routes(sessions.clone())).into_future());

    for visit in 1..=3 {
        let (status, body) = in_time(request(&address, "POST /visits")).await;
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        assert!(body.starts_with(&format!("visit {visit}, token ")), "{body}");
        let client = sessions.client();
        server.expire(client.session_id());
        // A request at the moment of the expiry gets status 503.
        in_time(client.wait_for_end()).await;
    }
    in_time(sessions.open_client()).await.unwrap().exists("/").await.unwrap();
    let (status, body) = in_time(request(&address, "GET /health")).await;
    assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
    let (status, page) = in_time(request(&address, "GET /metrics")).await;
    assert_eq!(status, "HTTP/1.1 200 OK", "{page}");
    let is_there = |start| page.lines().any(|line| line.starts_with(start));
    assert!(is_there("zk_lock_acquired_total{lock=\"visits\"} 3"), "{page}");
    for start in [
        "zk_lock_hand_off_seconds_count{lock=\"visits\"} 0",
        "zk_request_latency_seconds_bucket{le=\"+Inf\"} ",
        "zk_requests_in_flight ",
        "zk_connections_lost_total ",
        "zk_sessions_opened_total 4",
        "zk_sessions_ended_total{reason=\"expired\"} 3",
        "zk_sent_bytes_total ",
        "zk_received_bytes_total ",
        "zk_watches{kind=\"one_shot\"} ",
    ] {
        assert!(is_there(start), "{start} in {page}");
    }
    // A page names each metric once.
    let mut names: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, next| one < next), "{page}");
}

#[tokio::test]
async fn http_service_answers_while_there_is_no_server() {
    let server = TestServer::start().await.unwrap();
    let sessions = sessions(&server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(axum::serve(listener, service::routes(sessions.clone())).into_future());
    server.stall(0);
    let (status, body) = in_time(request(&address, "POST /visits")).await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable", "{body}");
    server.resume(0);
    let answer = async { while request(&address, "POST /visits").await.0 != "HTTP/1.1 200 OK" {} };
    in_time(answer).await;
}

#[tokio::test]
async fn sqlite_worker_pays_each_invoice_once_over_expiries() {
    const INVOICES: u32 = 30;
    let server = TestServer::start().await.unwrap();
    let folder = std::env::temp_dir().join(format!("zk-recipes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("invoices.sqlite");
    let mut ledger = Ledger::create(&file, INVOICES).unwrap();

    let mut workers = Vec::new();
    let mut managers = Vec::new();
    for name in ["one", "two"] {
        let (sessions, file) = (sessions(&server).await, file.clone());
        managers.push(sessions.clone());
        workers.push(tokio::spawn(async move { worker::work(name, &sessions, &file).await }));
    }
    // The sessions of both workers expire in turn while there is work.
    for sessions in managers.iter().cycle().take(6) {
        let client = in_time(sessions.open_client()).await.unwrap();
        server.expire(client.session_id());
        in_time(client.wait_for_end()).await;
    }
    let mut paid = 0;
    for worker in workers {
        paid += in_time(worker).await.unwrap().unwrap();
    }
    // An invoice that is written at the moment of a loss is paid, but its worker does not count it.
    assert!(paid <= INVOICES && ledger.paid().unwrap() == INVOICES, "{paid}");
    ledger.pay_next("a late one", 1).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
}
