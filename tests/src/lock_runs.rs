//! Helpers that hold locks and list their contenders.

use std::time::Duration;

use zk_recipes::Guard;
use zk_recipes::session::Client;

use crate::{Journal, eventually};

/// Shell script of a holder that records the acquisition and keeps the lock until its standard
/// input ends or it is killed. After that no process of it is left.
pub const HOLD: &str =
    r#"echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"; exec cat >/dev/null"#;

/// Records in the journal that the holder of `guard` has acquired and released the lock.
pub fn append_grant(journal: &Journal, guard: &Guard) {
    let token = guard.token().expect("whoever has just acquired a lock has it").czxid();
    journal.append("enter", token, guard.node());
    std::thread::yield_now();
    journal.append("exit", token, guard.node());
}

/// Waits until the lock at `path` has exactly `count` contenders, and returns the names of their
/// nodes in order. A path that does not exist has no contenders.
pub async fn contenders(client: &Client, path: &str, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let names = eventually(Duration::from_secs(30), async || {
        seen = match client.get_children(path).await {
            Ok(children) => children.names.names().map(std::borrow::Cow::into_owned).collect(),
            Err(error) => {
                assert_eq!(error.code(), Some(zk_recipes::session::ErrorCode::NO_NODE), "{error}");
                Vec::new()
            }
        };
        (seen.len() == count).then(|| seen.clone())
    })
    .await;
    let Some(mut names) = names else { panic!("not {count} contenders but {seen:?}") };
    names.sort_by(|a, b| a[a.len() - 10..].cmp(&b[b.len() - 10..]));
    names
}

/// Returns the part of a protected node's name by which a contender finds its node again.
pub fn contender_id(name: &str) -> &str {
    let id = name.strip_prefix("_c_").and_then(|rest| rest.rsplit_once("-lock-"));
    id.expect("a protected name of a mutex").0
}
