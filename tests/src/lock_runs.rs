//! Helpers that hold locks and list their contenders.

use std::time::Duration;

use zk_recipes::session::Client;

use crate::eventually;

/// Shell script of a holder that records the acquisition and keeps the lock until its standard
/// input ends or it is killed. After that no process of it is left.
pub const HOLD: &str =
    r#"echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"; exec cat >/dev/null"#;

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
