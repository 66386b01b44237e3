//! Requests beside the locks. Their reported outcomes must be true, and they must never read an
//! older state.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_session::{Client, CreateMode, Error, ErrorOrigin, Outcome, SessionId, Zxid};
use zk_testing::Rng;

use crate::world::World;

/// Sends requests, one after the other, until the session is over or the run drains.
pub(crate) async fn make(world: Arc<World>, client: Client, mut rng: Rng, pause: Duration) {
    let mut newest = Zxid::ZERO;
    for count in 0.. {
        if world.is_draining() {
            return;
        }
        // The pause grows. Early requests find most errors, and the lock needs the time.
        let pause = pause * (1 + count / 4);
        sleep(rng.around(pause) + Duration::from_millis(1)).await;
        let is_over = match rng.below(2) {
            0 => create(&world, &client).await,
            _ => read(&world, &client, &mut newest).await,
        };
        if is_over {
            return;
        }
    }
}

async fn create(world: &World, client: &Client) -> bool {
    let path = format!("/request-{}", world.next_number());
    world.oracle().request(&path);
    let created = client.create(&path, b"", CreateMode::Persistent).await;
    let mut oracle = world.oracle();
    oracle.log(format_args!("{path}: {:?}", created.as_ref().map(|created| created.stat.czxid)));
    let error = created.err();
    oracle.answered(&path, error.as_ref().map_or(Outcome::Applied, Error::outcome));
    error.is_some_and(|error| error.origin() == ErrorOrigin::Session)
}

async fn read(world: &World, client: &Client, newest: &mut Zxid) -> bool {
    match client.exists("/").await {
        // A read-only server may be behind another one, and ahead of the majority. Neither is a state of
        // the session, which has no id yet.
        Ok(_) if client.session_id() == SessionId::NONE => false,
        Ok(Some(stat)) if stat.pzxid < *newest => {
            let text = format!("{} after {newest}", stat.pzxid);
            world.oracle().violated("I9", format!("{}: {text}", client.session_id()));
            true
        }
        Ok(stat) => {
            *newest = stat.map_or(*newest, |stat| stat.pzxid);
            false
        }
        Err(error) => error.origin() == ErrorOrigin::Session,
    }
}
