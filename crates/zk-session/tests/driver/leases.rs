//! Claims to the lease of a session, for recipes whose locks depend on it.

use super::*;

/// A session that has dropped its claim sends no more transactions, which the servers would log.
#[tokio::test(start_paused = true)]
async fn dropped_lease_claim_is_not_renewed() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let claim = client.claim_lease();
    claim.renew().await.unwrap();
    drop(claim);
    let before = ensemble.count(OpCode::Multi);
    tokio::time::sleep(T * 5).await; // reason: virtual time, in which a claimed lease is renewed
    assert_eq!(ensemble.count(OpCode::Multi), before);
}

#[tokio::test(start_paused = true)]
async fn lease_claim_reports_how_long_its_term_lasts() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let claim = client.claim_lease();
    let began = now().into_std();
    let term = claim.renew().await.unwrap();
    let until = claim.valid_until(term).unwrap();
    assert!(until - now().into_std() > T * 5 / 6);
    let (margin, drift) = (T / 12, T / 1_000);
    assert_eq!(claim.remaining(term), T / 2 - margin - drift, "a reconnect takes no more");
    let proven_at = claim.proven_at(term).unwrap();
    assert!(proven_at <= began && until < proven_at + T, "{:?}", until - proven_at);
    client.close().await;
    assert_eq!((claim.remaining(term), claim.proven_at(term)), (Duration::ZERO, None));
}

/// A reconnect to a server that grants a shorter timeout ends the term earlier. The driver may be
/// stuck behind a task that blocks its thread, so the caller also looks at the clock by itself.
#[tokio::test(start_paused = true)]
async fn shortened_lease_is_lost_in_time_without_the_driver() {
    let ensemble = Ensemble::new();
    let (client, driver) = ensemble.config("a").connector(ensemble.clone()).into_parts();
    let mut driver = std::pin::pin!(driver);
    let claim = client.claim_lease();
    let term = tokio::select! {
        () = &mut driver => unreachable!("the session has not ended"),
        term = claim.renew() => term.unwrap(),
    };
    let mut lost = std::pin::pin!(claim.lost(term));
    let first = claim.valid_until(term).unwrap();
    ensemble.state().script.timeout_ms = 3000;
    ensemble.cut();
    tokio::select! {
        biased;
        _ = &mut lost => unreachable!("the lease goes on"),
        () = &mut driver => unreachable!("the session has not ended"),
        () = ensemble.until(|state| state.script.connects.len() == 2) => {}
    }
    let shortened = async {
        while claim.valid_until(term).unwrap() >= first {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = &mut driver => unreachable!("the session has not ended"),
        () = shortened => {}
    }
    let until = claim.valid_until(term).unwrap();
    assert!(matches!(lost.await, LeaseLoss::ProcessPaused(_)), "the driver did not run");
    let late = now().into_std().saturating_duration_since(until);
    assert!(late <= T / 16, "{late:?}");
}
