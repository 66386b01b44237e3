//! The routes of the service. Its state is the session manager, with metrics, and no part of a single
//! session.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use zk_recipes::session::{
    Client, CreateMode, Prometheus, PrometheusPage, RetryOn, SessionManager,
};
use zk_recipes::{LockError, LockMetrics, Mutex};

/// Time for which a request waits for the lock.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Service {
    sessions: SessionManager,
    metrics: LockMetrics,
}

pub(crate) fn routes(sessions: SessionManager) -> Router {
    let routes = Router::new().route("/visits", post(visit)).route("/health", get(health));
    let routes = routes.route("/metrics", get(metrics));
    routes.with_state(Service { sessions, metrics: LockMetrics::new() })
}

/// Returns what Prometheus collects. The documentation of both methods has the queries that matter.
async fn metrics(State(service): State<Service>) -> String {
    let locks = service.metrics.snapshot().prometheus("lock=\"visits\"");
    let session = service.sessions.client().stats().prometheus("");
    let sessions = service.sessions.totals().prometheus("");
    PrometheusPage::join([locks, session, sessions])
}

/// Reports whether requests can be served at the moment: the readiness of the service.
async fn health(State(service): State<Service>) -> Response {
    let client = service.sessions.client();
    match (client.is_connected(), client.end_reason()) {
        (true, _) => format!("session {}\n", client.session_id()).into_response(),
        (false, Some(end)) => later(&end.to_string()),
        (false, None) => later("not connected"),
    }
}

async fn visit(State(service): State<Service>) -> Response {
    match tokio::time::timeout(PATIENCE, counted(&service)).await {
        Ok(Ok(answer)) => answer.into_response(),
        // The lock is free again: dropping the future has dropped its guard.
        Err(_) => later("the lock is taken, or no server answers"),
        Ok(Err(error)) => match error.retry_on() {
            RetryOn::SameSession | RetryOn::NewSession => later(&error.to_string()),
            RetryOn::Never => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
            }
        },
    }
}

/// Counts one visit under the lock.
async fn counted(service: &Service) -> Result<String, LockError> {
    let client = service.sessions.open_client().await?;
    let lock = Mutex::new(&client, "/locks/visits")?.with_metrics(&service.metrics);
    let guard = lock.acquire().await?;
    let visits = read(&client).await? + 1;
    // Applied only if the lock is still held, however long this program was paused.
    let text = visits.to_string();
    guard.multi().set_data("/visits", text.as_bytes(), None).send().await?;
    let token = guard.token()?;
    guard.release().await?;
    Ok(format!("visit {visits}, token {token}\n"))
}

/// Reads the count, and creates its node if it does not exist.
async fn read(client: &Client) -> Result<u64, LockError> {
    match client.get_data("/visits").await {
        Ok(node) => {
            let text = String::from_utf8_lossy(&node.data);
            Ok(text.parse().unwrap_or_default())
        }
        Err(error) if error.is_no_node() => {
            client.create("/visits", b"0", CreateMode::Persistent).await?;
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

fn later(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")], format!("{why}\n")).into_response()
}
