//! One-shot watches over connections that break at random places.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use zk_recipes::session::{Client, Config, CreateMode, Error, RetryOn, Watch};
use zk_testing::{Cut, Direction, FaultProxy, Rng};
use zk_tests::shared_zookeeper;

use crate::client;

/// Each watched node that changed is told once, and no other. Set `WATCH_FUZZ_ROUNDS` for a longer run.
#[tokio::test(flavor = "multi_thread")]
async fn watches_tell_every_change_and_no_other_over_random_cuts() {
    let (Some(server), Some(other)) = (shared_zookeeper(), client("watch-fuzz").await) else {
        return;
    };
    let rounds: u64 = match std::env::var("WATCH_FUZZ_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("WATCH_FUZZ_ROUNDS is a number"),
        Err(_) => ROUNDS,
    };
    for number in 0..NODES {
        if number % 3 != 1 {
            other.create(&path(number), b"", CreateMode::Persistent).await.unwrap();
        }
    }
    let proxy = FaultProxy::in_front_of(server.address()).await.unwrap();
    let config = Config::new(&format!("{}/watch-fuzz", proxy.address())).unwrap();
    let config = config.session_timeout(TIMEOUT).rearm_chunk_bytes(CHUNK);
    let watcher = config.connect().await.unwrap();
    let mut cuts = 0;
    for round in 0..rounds {
        let mut random = Rng::new(round);
        let mut watches = Vec::new();
        for number in 0..NODES {
            watches.push(watch(&watcher, number).await.unwrap());
        }
        let mut changed = [false; NODES];
        for _ in 0..=random.below(4) {
            let is_away = random.below(2) == 0;
            if is_away {
                proxy.refuse_connects();
            }
            let to = random.pick(&[Direction::ToClient, Direction::ToServer]);
            proxy.cut_after(to, random.index(3_000), random.pick(&[Cut::Rst, Cut::Fin]));
            proxy.cut_all(Cut::Rst);
            for _ in 0..random.below(6) {
                let number = random.index(NODES);
                if !std::mem::replace(&mut changed[number], true) {
                    change(&other, number).await;
                }
            }
            proxy.accept_connects();
            // Some of the nodes that have changed are watched anew while other watches are set again.
            for number in (0..NODES).step_by(3) {
                if !changed[number] || random.below(2) == 0 {
                    continue;
                }
                match watch(&watcher, number).await {
                    Ok(again) => {
                        let mut before = std::mem::replace(&mut watches[number], again);
                        assert!(is_told(&mut before), "round {round}, {}", path(number));
                        changed[number] = false;
                    }
                    Err(error) => assert_eq!(error.retry_on(), RetryOn::SameSession, "{error}"),
                }
            }
        }
        for direction in [Direction::ToClient, Direction::ToServer] {
            proxy.cut_after(direction, usize::MAX, Cut::Rst);
        }
        while let Err(error) = watcher.sync("/").await {
            assert_eq!(error.retry_on(), RetryOn::SameSession, "{error}");
        }
        for (number, mut watch) in watches.into_iter().enumerate() {
            let told = is_told(&mut watch);
            assert_eq!(told, changed[number], "round {round}, {}", path(number));
        }
        for number in (0..NODES).filter(|number| number % 3 == 1 && changed[*number]) {
            other.delete(&path(number), None).await.unwrap();
        }
        cuts = watcher.stats().connections_lost;
    }
    println!("{rounds} rounds, {cuts} lost connections");
    assert!(cuts >= rounds, "{cuts}");
}

/// Sets a watch: on the data of a node, on a node that does not exist, or on children.
async fn watch(client: &Client, number: usize) -> Result<Watch, Error> {
    let path = path(number);
    Ok(match number % 3 {
        0 => client.get_data_and_watch(&path).await?.1,
        1 => client.exists_and_watch(&path).await?.1,
        _ => client.get_children_and_watch(&path).await?.1,
    })
}

fn is_told(watch: &mut Watch) -> bool {
    Pin::new(watch).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Makes the change that such a watch tells.
async fn change(client: &Client, number: usize) {
    let path = path(number);
    match number % 3 {
        0 => drop(client.set_data(&path, b"x", None).await.unwrap()),
        1 => drop(client.create(&path, b"", CreateMode::Persistent).await.unwrap()),
        _ => {
            let child = format!("{path}/c-");
            drop(client.create(&child, b"", CreateMode::PersistentSequential).await.unwrap());
        }
    }
}

fn path(number: usize) -> String {
    format!("/a-node-with-number-{number:04}")
}

/// Short, as the pauses between attempts are a part of it.
const TIMEOUT: Duration = Duration::from_secs(4);

const NODES: usize = 120;

/// Bytes of the paths in one request, each of which sets some ten watches again.
const CHUNK: usize = 250;

const ROUNDS: u64 = 4;
