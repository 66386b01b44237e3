//! Holding locks, and looking at who does.

use std::time::Duration;

use zk_recipes::Guard;
use zk_recipes::session::Client;

use crate::{Journal, eventually};

/// What a holder runs in a shell to come in and stay, until its standard input ends or it is
/// killed. It leaves no process behind then.
pub const HOLD: &str =
    r#"echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"; exec cat >/dev/null"#;

/// Writes into the journal that the holder of `guard` has come in, and that it has gone out.
pub fn append_grant(journal: &Journal, guard: &Guard) {
    let token = guard.token().expect("whoever has just acquired a lock has it").get();
    journal.append("enter", token, guard.node());
    std::thread::yield_now();
    journal.append("exit", token, guard.node());
}

/// Waits until the lock at `path` has exactly `count` contenders, and returns the names of their
/// nodes in order. A path that does not exist has none.
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

/// The part of a node's name by which its contender finds it again.
pub fn contender_id(name: &str) -> &str {
    name.strip_prefix("_c_").and_then(|rest| rest.get(..36)).expect("a protected name")
}
