//! `zk watch`: what happens to a node, as it happens.

use serde_json::json;
use zk_recipes::session::{Client, Config, Error, ErrorCode, EventType, Watch, WatchedEvent};

use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;

pub(crate) async fn run(config: Config, path: &str, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let client = config.connect().await?;
    let result = tokio::select! {
        result = follow(&client, path, output) => result.map(|()| 0),
        _ = signals.next() => Ok(0), // the way this command is meant to end
    };
    client.close().await;
    result
}

/// Prints events for ever. Both watches survive reconnects, and are set again
/// before the event is printed, so that whoever reacts to the line misses nothing.
async fn follow(client: &Client, path: &str, output: Output) -> Result<(), Failure> {
    let mut node = watch_node(client, path).await?;
    let mut children = watch_children(client, path).await?;
    eprintln!("zk: watching {path}");
    loop {
        let event = tokio::select! {
            event = &mut node => event?,
            event = children_event(children.as_mut()) => event?,
        };
        match event.event_type {
            EventType::NODE_CHILDREN_CHANGED => children = watch_children(client, path).await?,
            EventType::NODE_DATA_CHANGED => node = watch_node(client, path).await?,
            // Both watches see the deletion; it is told once.
            _ => {
                drop(children);
                node = watch_node(client, path).await?;
                children = watch_children(client, path).await?;
            }
        }
        print(&event, output)?;
    }
}

async fn watch_node(client: &Client, path: &str) -> Result<Watch, Error> {
    client.exists_and_watch(path).await.map(|(_, watch)| watch)
}

/// There is nothing to watch below a node that does not exist.
async fn watch_children(client: &Client, path: &str) -> Result<Option<Watch>, Error> {
    match client.get_children_and_watch(path).await {
        Ok((_, watch)) => Ok(Some(watch)),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn children_event(watch: Option<&mut Watch>) -> Result<WatchedEvent, Error> {
    match watch {
        Some(watch) => watch.await,
        None => std::future::pending().await,
    }
}

fn print(event: &WatchedEvent, output: Output) -> Result<(), Failure> {
    let name = event.event_type.name().unwrap_or("Unknown");
    output
        .print([format!("{name} {}", event.path)], || json!({ "event": name, "path": event.path }))
}
