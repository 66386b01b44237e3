//! Measures how long a cache takes to load many nodes, compared with reading them one by one, with
//! many requests in flight.
//!
//! `cargo run --profile bench -p zk-coordination --example cache_load -- 127.0.0.1:2181 100000`
//!
//! It creates that many nodes below `/cache-load`, and deletes them at the end. The ways take turns,
//! each on a session of its own.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use zk_coordination::session::path::child;
use zk_coordination::session::{Client, Config, CreateMode, Pending, SessionManager, Stats};
use zk_coordination::{Cache, Change};
use zk_testing::{Cut, FaultProxy};

const ROOT: &str = "/cache-load";
const ROUNDS: usize = 9;
/// Bytes of data of each node.
const DATA: usize = 100;
/// Requests in flight, as the cache has by default.
const IN_FLIGHT: usize = 256;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Time, requests and bytes of one load.
#[derive(Clone, Copy, Debug)]
struct Load {
    time: Duration,
    sent: u64,
    received_bytes: u64,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, nodes] = &arguments[..] else {
        return Err("usage: cache_load HOST:PORT NODES".into());
    };
    let nodes: usize = nodes.parse()?;
    let writer = Client::connect(servers).await?;
    create(&writer, nodes).await?;
    let proxy = FaultProxy::in_front_of(servers.parse()?).await?;
    let mut loads: [Vec<Load>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let config = || Config::new(servers);
        loads[0].push(one_by_one(config()?.connect().await?, nodes).await?);
        loads[1].push(with_cache(SessionManager::connect(config()?).await?, nodes).await?);
        let sessions = SessionManager::connect(config()?).await?;
        loads[2].push(with_subscriber(sessions, nodes).await?);
        let [load, gap] = before_and_after_a_gap(&proxy, nodes).await?;
        loads[3].push(load);
        loads[4].push(gap);
    }
    let base = median(&loads[0]).time.as_secs_f64();
    let names =
        ["one read each", "cache", "cache with a subscriber", "proxied cache", "and after a gap"];
    println!("{nodes} nodes of {DATA} bytes, {ROUNDS} rounds");
    for (name, loads) in names.into_iter().zip(&loads) {
        let Load { time, sent, received_bytes } = median(loads);
        let times = loads.iter().map(|load| load.time);
        println!(
            "{name:23} median {:7.1} ms ({:.1} to {:.1}), ratio {:.2}; {sent} requests, {received_bytes} B",
            ms(time),
            ms(times.clone().min().unwrap_or_default()),
            ms(times.max().unwrap_or_default()),
            time.as_secs_f64() / base,
        );
    }
    delete(&writer).await
}

/// Lists the children, and reads each with a request of its own.
async fn one_by_one(client: Client, nodes: usize) -> Outcome<Load> {
    let (start, before) = (now(), client.stats());
    let names = client.get_children(ROOT).await?.names;
    let names: Vec<_> = names.names().collect();
    let mut data = Vec::with_capacity(nodes);
    let mut pending = VecDeque::new();
    for names in names.chunks(IN_FLIGHT / 4) {
        for name in names {
            let path = child(ROOT, name);
            pending.push_back((client.get_data(&path), path));
        }
        while pending.len() > IN_FLIGHT * 3 / 4 {
            take(&mut pending, &mut data).await?;
        }
    }
    while !pending.is_empty() {
        take(&mut pending, &mut data).await?;
    }
    assert_eq!(data.len(), nodes);
    let load = load_since(&client, start, &before);
    client.close().await;
    Ok(load)
}

type Read<N> = (Pending<N>, String);

async fn take<N>(pending: &mut VecDeque<Read<N>>, data: &mut Vec<(String, N)>) -> Outcome<()> {
    if let Some((read, path)) = pending.pop_front() {
        data.push((path, read.await?));
    }
    Ok(())
}

async fn with_cache(sessions: SessionManager, nodes: usize) -> Outcome<Load> {
    let (start, before) = (now(), sessions.client().stats());
    let cache = Cache::tree(&sessions, ROOT).open().await?;
    let load = load_since(&sessions.client(), start, &before);
    assert_eq!(cache.snapshot().len(), nodes + 1);
    sessions.close().await;
    Ok(load)
}

/// Reads a change for each node, and counts the nodes in them.
async fn with_subscriber(sessions: SessionManager, nodes: usize) -> Outcome<Load> {
    let (start, before) = (now(), sessions.client().stats());
    let cache = Cache::tree(&sessions, ROOT).changes_kept(8 * 1024).start()?;
    let mut changes = cache.changes();
    let mut known = changes.snapshot().map_or(0, |nodes| nodes.len());
    while known <= nodes {
        match changes.next().await.ok_or("the cache has ended")? {
            Change::Created { .. } => known += 1,
            Change::Missed(_) => known = changes.snapshot().map_or(0, |nodes| nodes.len()),
            _ => {}
        }
    }
    let load = load_since(&sessions.client(), start, &before);
    sessions.close().await;
    Ok(load)
}

/// Loads a cache through a proxy that cuts the connection, and measures from there until the cache is
/// synced again. No node has changed.
async fn before_and_after_a_gap(proxy: &FaultProxy, nodes: usize) -> Outcome<[Load; 2]> {
    let sessions = SessionManager::connect(Config::new(&proxy.address().to_string())?).await?;
    let (start, before) = (now(), sessions.client().stats());
    let cache = Cache::tree(&sessions, ROOT).open().await?;
    let load = load_since(&sessions.client(), start, &before);
    let mut changes = cache.changes();
    let (start, before) = (now(), sessions.client().stats());
    proxy.cut_all(Cut::Rst);
    while !matches!(changes.next().await, Some(Change::Synced { .. })) {}
    let gap = load_since(&sessions.client(), start, &before);
    assert_eq!(cache.snapshot().len(), nodes + 1);
    sessions.close().await;
    Ok([load, gap])
}

fn load_since(client: &Client, start: Instant, before: &Stats) -> Load {
    let (time, after) = (start.elapsed(), client.stats());
    Load {
        time,
        sent: after.frames_sent - before.frames_sent,
        received_bytes: after.bytes_received - before.bytes_received,
    }
}

async fn create(client: &Client, nodes: usize) -> Outcome<()> {
    match client.create(ROOT, b"", CreateMode::Persistent).await {
        Err(error) if error.is_node_exists() => delete(client).await?,
        created => return fill(client, nodes, created?.path).await,
    }
    client.create(ROOT, b"", CreateMode::Persistent).await?;
    fill(client, nodes, ROOT.to_owned()).await
}

async fn fill(client: &Client, nodes: usize, root: String) -> Outcome<()> {
    let numbers: Vec<usize> = (0..nodes).collect();
    for numbers in numbers.chunks(1_000) {
        let create = |number: &usize| {
            let path = format!("{root}/instance-{number:08}");
            client.create(&path, [b'x'; DATA], CreateMode::Persistent)
        };
        for created in numbers.iter().map(create).collect::<Vec<_>>() {
            created.await?;
        }
    }
    Ok(())
}

async fn delete(client: &Client) -> Outcome<()> {
    let names = client.get_children(ROOT).await?.names;
    let names: Vec<_> = names.names().collect();
    for names in names.chunks(1_000) {
        let delete = |name: &Cow<'_, str>| client.delete(&child(ROOT, name), None);
        for deleted in names.iter().map(delete).collect::<Vec<_>>() {
            deleted.await?;
        }
    }
    Ok(client.delete(ROOT, None).await?)
}

fn median(loads: &[Load]) -> Load {
    let mut sorted = loads.to_vec();
    sorted.sort_by_key(|load| load.time);
    sorted[sorted.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}
