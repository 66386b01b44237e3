//! Spans and events of the crate `tracing`: what an operator finds in the logs.
//!
//! `cargo xtask test` runs these tests; they need the feature `tracing`.

use zk_session::limits::SLOW_REQUEST;

use super::*;
use crate::server_lists::{Answer, Listed};
use crate::tracing_log::Log;

#[tokio::test(start_paused = true)]
async fn connections_and_slow_requests_are_logged() {
    let (log, _guard) = Log::start();
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    log.assert_one(&["span INFO zk.connect", "servers=\"a:2181\""]);
    let connected = ["event INFO", "connected", "session=0x100000001", "timeout_ms=6000"];
    log.assert_one(&connected);

    ensemble.state().script.missing.insert("/none".to_owned());
    client.delete("/none", None).await.unwrap_err();
    log.assert_one(&["span DEBUG zk.request", "operation=\"delete\"", "path=/none"]);
    log.assert_one(&["record", "error=delete /none: NoNode (-101)"]);
    assert_eq!(log.with(&["event WARN"]).len(), 0, "neither slow nor throttled");

    ensemble.state().unanswered.insert(OpCode::SetData.code());
    client.with_timeout(SLOW_REQUEST).set_data("/n", b"", None).await.unwrap_err();
    log.assert_one(&["event WARN", "slow request", "path=/n", "took_ms=1000"]);
    client.close().await;
    log.assert_one(&["event INFO", "session closed", "session=0x100000001"]);
}

/// The end of the session has an event of its own.
#[tokio::test(start_paused = true)]
async fn ended_lease_is_logged_unless_the_session_is_closed() {
    for closes in [true, false] {
        let (log, _guard) = Log::start();
        let ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let claim = client.claim_lease();
        let term = claim.renew().await.unwrap();
        if closes {
            client.close().await;
        } else {
            ensemble.state().unanswered.extend([OpCode::Multi.code(), OpCode::Sync.code()]);
            claim.lost(term).await;
            tokio::time::sleep(Duration::from_millis(10)).await; // reason: the driver has a turn
        }
        let warnings = log.with(&["event WARN", "lease ended", "session=0x100000001"]).len();
        assert_eq!(warnings, usize::from(!closes));
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_servers_are_logged() {
    let (log, _guard) = Log::start();
    let ensemble = Ensemble::new();
    ensemble.state().script.missing.insert("/zookeeper/config".to_owned());
    let list = Listed::new(Answer::Fails);
    let config = ensemble.config("a").discover(list).follow_members();
    ensemble.connect_with(config).await.sync("/").await.unwrap();
    log.assert_one(&["event WARN", "no newer list", "failure=the registry is down"]);
    log.assert_one(&["event INFO", "does not follow", "why=getData /zookeeper/config: NoNode"]);

    let (log, _guard) = Log::start();
    ensemble.state().script.missing.clear();
    ensemble.state().script.data = b"server.1=a:1:2;a:2181"[..].into();
    let (list, config) = (Listed::servers(&["b"]), ensemble.config("a"));
    let client = config.discover(list).follow_members().connector(ensemble.clone()).open();
    client.unwrap().sync("/").await.unwrap();
    log.assert_one(&["event DEBUG", "discovered", "servers=[b:2181]"]);
    log.assert_one(&["event DEBUG", "follows the members", "config=server.1=a:1:2;a:2181"]);
}
