//! One session after another: handed over, or made anew because it was asked for.

use zk_session::{Reconnecting, SessionCredentials};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_session_is_made_when_asked_for_and_told_with_both_ids() {
    let ensemble = Ensemble::new(&["/n"]);
    let config = ensemble.config("a");
    let mut sessions = Reconnecting::connect_through(config, ensemble.clone()).await.unwrap();
    let first = sessions.client().clone();
    let claim = first.claim_lease();
    claim.renew().await.unwrap();
    let belief = claim.bind().unwrap();

    ensemble.state().server.expired = true;
    ensemble.cut();
    let renewal = sessions.renewed().await.unwrap();
    assert_eq!((renewal.old_id, renewal.new_id), (ID, sessions.client().session_id()));
    assert_eq!(renewal.cause, SessionEnd::Expired);
    let asked: Vec<i64> =
        ensemble.state().server.connects.iter().map(|connect| connect.session_id).collect();
    assert_eq!(asked, [0, ID, 0], "a new session, not the old one again");
    assert_eq!(first.ended(), Some(SessionEnd::Expired), "the old client stays dead");
    assert!(!claim.holds(belief) && first.exists("/n").await.is_err());
    sessions.client().exists("/n").await.unwrap();
    assert_ne!(first.draw_uuid(), sessions.client().draw_uuid());

    sessions.client().close().await;
    let error = sessions.renewed().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn while_no_server_gives_a_session_the_old_client_stays_and_it_can_be_tried_again() {
    let ensemble = Ensemble::new(&["/n"]);
    let config = ensemble.config("a");
    let mut sessions = Reconnecting::connect_through(config, ensemble.clone()).await.unwrap();
    ensemble.state().server.expired = true;
    ensemble.state().refuses = true;
    ensemble.cut();
    let waiting = tokio::time::timeout(T / 4, sessions.renewed()).await;
    assert!(waiting.is_err(), "nobody has said yet that it is over");
    let error = sessions.renewed().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSession(_)), "{error}");
    assert_eq!(sessions.client().ended(), Some(SessionEnd::ExpiredLocally { paused: None }));
    ensemble.state().refuses = false;
    assert_eq!(
        sessions.renewed().await.unwrap().cause,
        SessionEnd::ExpiredLocally { paused: None }
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_is_left_and_taken_over() {
    let ensemble = Ensemble::new(&["/n"]);
    let first = ensemble.client().await;
    let mut events = first.events();
    let credentials = first.detach().unwrap();
    assert_eq!(events.next().await, Some(SessionEvent::Detached { session_id: ID }));
    assert_eq!(events.next().await, None);
    drop(first);
    let config = ensemble.config("a").resume(credentials);
    let second = config.connect_through(ensemble.clone()).await.unwrap();
    assert_eq!(second.session_id(), ID);
    assert!(!ensemble.state().server.closed);
    second.close().await;
    assert!(ensemble.state().server.closed);
    assert_eq!(second.detach(), None);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_could_not_be_reached_is_left_alone() {
    let ensemble = Ensemble::new(&["/n"]);
    ensemble.state().hangs = true;
    let session = SessionCredentials::new(ID, *server::PASSWORD, 7);
    let config = ensemble.config("a").resume(session);
    let error = config.clone().connect_through(ensemble.clone()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSession(_)), "{error}");
    ensemble.state().hangs = false;
    let client = config.connect_through(ensemble.clone()).await.unwrap();
    let printed = format!("{client:?} {:?}", ensemble.state().server.connects.len());
    assert!(!printed.contains("0123456789abcdef"));
    assert!(!ensemble.ops().contains(&OpCode::CloseSession));
    assert_eq!(client.session_id(), ID);
}
