//! Commands on a node and all below it: `zk ls --recursive` and `zk count`.

use serde_json::json;
use zk_recipes::session::{Client, Error, ErrorCode, Retry, RetryOn, path};

use crate::failure::Failure;
use crate::output::{Output, data_text};

/// Prints the paths of a node and of all nodes below it, each before those below it.
pub(crate) async fn ls(
    client: &Client,
    retry: &Retry,
    root: &str,
    output: Output,
) -> Result<(), Failure> {
    let paths = sorted_paths(client, retry, root).await?;
    let lines = paths.iter().map(|path| data_text(path.as_bytes()));
    output.print(lines, || paths.iter().map(|path| json!(path)).collect())
}

/// Lists a node and all nodes below it, each before those below it.
pub(crate) async fn sorted_paths(
    client: &Client,
    retry: &Retry,
    root: &str,
) -> Result<Vec<String>, Error> {
    let mut paths = paths(client, retry, root).await?;
    // By component: `/a/b` comes before `/a-b`.
    paths.sort_unstable_by(|one, other| one.split('/').cmp(other.split('/')));
    Ok(paths)
}

/// Prints the number of nodes below a node.
pub(crate) async fn count(
    client: &Client,
    retry: &Retry,
    root: &str,
    output: Output,
) -> Result<(), Failure> {
    let number = match retry.run(|client| client.all_children_number(root)).await {
        Ok(number) => usize::try_from(number).unwrap_or(0),
        // A server before 3.6.
        Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
            paths(client, retry, root).await?.len() - 1
        }
        Err(error) => return Err(error.into()),
    };
    output.print([number.to_string()], || json!({ "descendants": number }))
}

/// Lists a node and all nodes below it, level by level. Nodes that vanish meanwhile are left out.
async fn paths(client: &Client, retry: &Retry, root: &str) -> Result<Vec<String>, Error> {
    // The root must exist.
    retry.get_children(root).await?;
    let mut found = vec![root.to_owned()];
    let mut level = 0..1;
    while !level.is_empty() {
        let mut next = Vec::new();
        for chunk in found[level.clone()].chunks(LISTS_AT_ONCE) {
            let asked: Vec<_> = chunk.iter().map(|node| client.get_children(node)).collect();
            for (node, asked) in chunk.iter().zip(asked) {
                let listed = match asked.await {
                    // The connection was lost, and the session goes on.
                    Err(error) if error.retry_on() == RetryOn::SameSession => {
                        retry.get_children(node).await
                    }
                    listed => listed,
                };
                match listed {
                    Ok(children) => {
                        next.extend(children.names.names().map(|name| path::child(node, &name)));
                    }
                    Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        level = found.len()..found.len() + next.len();
        found.append(&mut next);
    }
    Ok(found)
}

/// Lists that are requested at once.
const LISTS_AT_ONCE: usize = 100;
