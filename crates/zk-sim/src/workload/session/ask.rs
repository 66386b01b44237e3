//! The requests of a session.

use std::future::Future;
use std::pin::Pin;

use zk_session::{
    Client, CreateMode, Error, MultiOutcome, SessionId, Stat, Watch, WatchStream, Zxid,
};

use super::Worker;
use super::watched::Uses;
use crate::history::number_in;

/// Nodes that all sessions work on, parents first.
pub(super) const PATHS: [&str; 5] = ["/s", "/s/a", "/s/b", "/s/a/x", "/s/a/y"];

/// Maximum number of one-shot watches of a session. A third of it is the limit for streams.
const WATCHES_MAX: usize = 12;

/// Maximum number of server list updates of a session. Each may move the session to another server,
/// which counts as a reconnect.
const UPDATES_MAX: u64 = 10;

/// Maximum number of unanswered requests of a session.
const WINDOW_MAX: usize = 40;

/// A request that was sent.
pub(super) struct Asked {
    pub(super) request: u64,
    pub(super) kind: Kind,
    pub(super) path: String,
    /// The unique numbers of its writes.
    pub(super) numbers: Vec<u64>,
    pub(super) session: SessionId,
    pub(super) connections_lost: u64,
    pub(super) future: Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Set,
    Multi,
    Delete,
    Read,
    List,
    /// The newest zxid of the leader when it was sent, if the run was draining.
    Sync(Option<Zxid>),
    Auth,
    Stream {
        is_recursive: bool,
    },
}

pub(super) enum Answer {
    /// The nodes that were written, with their new stats.
    Written(Vec<(String, Stat)>),
    Done,
    Read(Option<(Stat, Option<u64>)>, Option<Watch>),
    Listed(Stat, Option<Watch>),
    Streaming(WatchStream),
}

impl Asked {
    pub(super) fn what(&self) -> String {
        format!("request {} ({:?} {} {:?})", self.request, self.kind, self.path, self.numbers)
    }

    pub(super) fn is_auth(&self) -> bool {
        self.kind == Kind::Auth
    }
}

impl Worker {
    /// Creates the first nodes.
    pub(super) fn plant(&mut self) {
        let client = self.seat.client.clone();
        for path in &PATHS[..3] {
            self.create(&client, path, CreateMode::Persistent);
        }
    }

    /// Sends several requests at once, sometimes as one batch.
    pub(super) fn burst(&mut self, count: u64) {
        let client = self.seat.client.clone();
        let is_batch = self.seat.rng.chance(0.3);
        let batch = is_batch.then(|| client.batch());
        for _ in 0..count {
            if self.window.len() >= WINDOW_MAX {
                break;
            }
            self.make();
        }
        drop(batch);
    }

    fn make(&mut self) {
        let plan = self.seat.world.plan.session;
        let mut client = self.seat.client.clone();
        if self.seat.rng.chance(plan.within) {
            let time = self.seat.rng.around(self.seat.timeout / 8);
            client = client.with_timeout(time);
        }
        let path = self.seat.rng.pick(&PATHS);
        match self.seat.rng.below(40) {
            0..=4 => {
                let mode = self.seat.rng.pick(&[CreateMode::Persistent, CreateMode::Ephemeral]);
                self.create(&client, path, mode);
            }
            5..=6 => {
                let modes = [CreateMode::PersistentSequential, CreateMode::EphemeralSequential];
                let mode = self.seat.rng.pick(&modes);
                self.create(&client, "/s/b/n-", mode);
            }
            7..=13 => {
                let version = self.version();
                self.set(&client, path, version);
            }
            14..=16 => self.delete(&client, path),
            17..=18 => match self.own.pop() {
                Some(own) => self.delete(&client, &own),
                None => self.delete(&client, path),
            },
            19..=20 => self.multi(&client, path),
            21..=29 => self.read(&client, path),
            30..=31 => self.sync(&client),
            32 => self.add_auth(&client),
            33..=36 => self.stream(&client, path),
            37 => self.forget(),
            38 if self.updates < UPDATES_MAX => self.update_servers(),
            _ => {
                // The future is dropped before the reply arrives.
                let node = client.get_data(path);
                drop(node);
            }
        }
    }

    fn version(&mut self) -> Option<i32> {
        self.seat.rng.chance(0.3).then(|| i32::try_from(self.seat.rng.below(3)).unwrap_or(0))
    }

    /// Changes a node and its list of children, in any state.
    pub(super) fn touch(&mut self, path: &str) {
        let client = self.seat.client.clone();
        self.create(&client, path, CreateMode::Persistent);
        self.set(&client, path, None);
        self.create(&client, &format!("{path}/n-"), CreateMode::PersistentSequential);
    }

    fn create(&mut self, client: &Client, path: &str, mode: CreateMode) {
        let number = self.seat.world.next_number();
        let data = number.to_string();
        let created = client.create(path, data.as_bytes(), mode);
        self.ask(Kind::Create, path, vec![number], async move {
            created.await.map(|created| Answer::Written(vec![(created.path, created.stat)]))
        });
    }

    fn set(&mut self, client: &Client, path: &str, version: Option<i32>) {
        let number = self.seat.world.next_number();
        let set = client.set_data(path, number.to_string().as_bytes(), version);
        let node = path.to_owned();
        self.ask(Kind::Set, path, vec![number], async move {
            set.await.map(|stat| Answer::Written(vec![(node, stat)]))
        });
    }

    fn multi(&mut self, client: &Client, path: &str) {
        let numbers = vec![self.seat.world.next_number(), self.seat.world.next_number()];
        let [set, create] = [numbers[0], numbers[1]].map(|number| number.to_string());
        let version = self.version();
        let multi = client
            .multi()
            .check("/s", None)
            .set_data(path, set.as_bytes(), version)
            .create("/s/b/n-", create.as_bytes(), CreateMode::EphemeralSequential)
            .send();
        let node = path.to_owned();
        self.ask(Kind::Multi, path, numbers, async move {
            let outcomes = multi.await?;
            let stats = outcomes.into_iter().filter_map(|outcome| match outcome {
                MultiOutcome::Set(stat) => Some((node.clone(), stat)),
                MultiOutcome::Created { path, stat } => Some((path, stat?)),
                _ => None,
            });
            Ok(Answer::Written(stats.collect()))
        });
    }

    /// Deletes a node. The history must know the session that deletes it, so a client without a
    /// session id reads instead.
    fn delete(&mut self, client: &Client, path: &str) {
        if client.session_id() == SessionId::NONE {
            return self.read(client, path);
        }
        let version = self.version();
        let deleted = client.delete(path, version);
        self.ask(
            Kind::Delete,
            path,
            Vec::new(),
            async move { deleted.await.map(|()| Answer::Done) },
        );
    }

    fn read(&mut self, client: &Client, path: &str) {
        let uses_one_shots = matches!(self.uses, Uses::OneShots | Uses::All);
        let watched = uses_one_shots && self.one_shots.len() < WATCHES_MAX;
        let number = |data: Option<&[u8]>| Some(number_in(data.unwrap_or_default()));
        match (self.seat.rng.below(3), watched && self.seat.rng.chance(0.7)) {
            (0, false) => {
                let read = client.exists(path);
                self.ask(Kind::Read, path, Vec::new(), async move {
                    read.await.map(|stat| Answer::Read(stat.map(|stat| (stat, None)), None))
                });
            }
            (0, true) => {
                let read = client.exists_and_watch(path);
                self.ask(Kind::Read, path, Vec::new(), async move {
                    let (stat, watch) = read.await?;
                    Ok(Answer::Read(stat.map(|stat| (stat, None)), Some(watch)))
                });
            }
            (1, false) => {
                let read = client.get_data(path);
                self.ask(Kind::Read, path, Vec::new(), async move {
                    let node = read.await?;
                    Ok(Answer::Read(Some((node.stat, number(node.nullable()))), None))
                });
            }
            (1, true) => {
                let read = client.get_data_and_watch(path);
                self.ask(Kind::Read, path, Vec::new(), async move {
                    let (node, watch) = read.await?;
                    let seen = Some((node.stat, number(node.nullable())));
                    Ok(Answer::Read(seen, Some(watch)))
                });
            }
            (_, false) => {
                let list = client.get_children(path);
                self.ask(Kind::List, path, Vec::new(), async move {
                    list.await.map(|list| Answer::Listed(list.stat, None))
                });
            }
            (_, true) => {
                let list = client.get_children_and_watch(path);
                self.ask(Kind::List, path, Vec::new(), async move {
                    let (list, watch) = list.await?;
                    Ok(Answer::Listed(list.stat, Some(watch)))
                });
            }
        }
    }

    /// Sends a sync. While faults are active, the reply may come from a replaced leader that does not
    /// know of its successor.
    pub(super) fn sync(&mut self, client: &Client) {
        let calm = self.seat.world.is_draining();
        let newest = calm.then(|| self.seat.world.oracle().history.newest());
        let synced = client.sync("/s");
        self.ask(Kind::Sync(newest), "/s", Vec::new(), async move {
            synced.await.map(|()| Answer::Done)
        });
    }

    fn add_auth(&mut self, client: &Client) {
        if self.window.iter().any(Asked::is_auth) {
            return; // the client limits the credentials of a session, and pending ones count
        }
        let auth = self.seat.rng.pick(&["one:1", "two:2", "three:3"]);
        let added = client.add_auth("digest", auth);
        self.ask(Kind::Auth, "", Vec::new(), async move { added.await.map(|()| Answer::Done) });
    }

    fn stream(&mut self, client: &Client, path: &str) {
        let is_recursive = match self.uses {
            Uses::OneShots => return self.read(client, path),
            Uses::Persistent => false,
            Uses::Recursive => true,
            Uses::All => self.seat.rng.chance(0.5),
        };
        if self.streams.len() >= WATCHES_MAX / 3 {
            return self.forget();
        }
        let stream = if is_recursive { client.watch_recursive(path) } else { client.watch(path) };
        self.ask(Kind::Stream { is_recursive }, path, Vec::new(), async move {
            stream.await.map(Answer::Streaming)
        });
    }

    /// Drops a watch.
    fn forget(&mut self) {
        if !self.streams.is_empty() && self.seat.rng.chance(0.5) {
            let number = self.seat.rng.index(self.streams.len());
            drop(self.streams.swap_remove(number));
        } else if !self.one_shots.is_empty() {
            let number = self.seat.rng.index(self.one_shots.len());
            drop(self.one_shots.swap_remove(number));
        }
    }

    fn update_servers(&mut self) {
        self.updates += 1;
        let servers = self.seat.world.plan.servers.len();
        let kept = self.seat.rng.index(servers);
        let others: Vec<usize> =
            (0..servers).filter(|server| *server == kept || self.seat.rng.chance(0.6)).collect();
        let list: Vec<String> = others.iter().map(|server| format!("server-{server}:1")).collect();
        self.seat.world.oracle().log(format_args!("{} has servers {list:?}", self.seat.name));
        if let Err(error) = self.seat.client.update_servers(&list.join(",")) {
            self.violated("I7", &format!("update_servers: {error}"));
        }
    }

    fn ask<F>(&mut self, kind: Kind, path: &str, numbers: Vec<u64>, future: F)
    where
        F: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        self.made += 1;
        let (request, path, session) = (self.made, path.to_owned(), self.seat.client.session_id());
        let connections_lost = self.seat.client.stats().connections_lost;
        let future = Box::pin(future);
        let asked = Asked { request, kind, path, numbers, session, connections_lost, future };
        let mut oracle = self.seat.world.oracle();
        if kind == Kind::Delete {
            oracle.history.delete_begins(session, &asked.path);
        }
        oracle.asked();
        oracle.log(format_args!("{} {}", self.seat.name, asked.what()));
        drop(oracle);
        self.window.push_back(asked);
    }
}
