//! Clients of both libraries that contend for a lock as a script says.
//!
//! A line has one or more steps, with semicolons between them. A step is `CLIENT.NAME VERB`, and a client is
//! `java` or `rust` with a number behind it if there are several. A client with a number has a short session,
//! which ends some time after `CLIENT dies`.
//!
//! | step | what happens |
//! |---|---|
//! | `java.a acquires KIND` | it acquires the lock at once |
//! | `java.a queues KIND` | it begins to acquire, and has a node |
//! | `java.a gets` | the acquisition that it has begun succeeds |
//! | `java.a waits` | the acquisition that it has begun has not ended |
//! | `java.a releases` | it releases the lock |
//! | `java.a misses KIND` | it does not acquire the lock |
//! | `rust.a gives-up` | it cancels the acquisition that it has begun |
//! | `rust1 closes` | the client closes its session |
//! | `java1 dies` | the process ends without closing its session |
//! | `nodes N` | so many nodes are left |
//! | `KIND lists N` | both libraries list the same nodes |

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{LockError, LockGuard, LossReason};
use zk_tests::lock_spec::LockSpec;
use zk_tests::{Curator, LIMIT, connect, eventually, open};

use crate::{LONG, SHORT, address};

type Acquiring = JoinHandle<Result<Box<dyn LockGuard>, LockError>>;

struct Play {
    path: String,
    observer: Client,
    java: BTreeMap<String, Curator>,
    rust: BTreeMap<String, Client>,
    acquiring: BTreeMap<String, Acquiring>,
    held: BTreeMap<String, Box<dyn LockGuard>>,
}

/// Plays a script at a path, and again with the other library for each client.
pub(crate) async fn play_both(path: &str, script: &str) {
    play(path, script).await;
    let swapped = script.replace("java", "J").replace("rust", "java").replace('J', "rust");
    play(&format!("{path}-swapped"), &swapped).await;
}

/// Plays a script at a path.
pub(crate) async fn play(path: &str, script: &str) {
    let Some(address) = address() else { return };
    let mut play = Play {
        path: path.to_owned(),
        observer: open(&address).await,
        java: BTreeMap::new(),
        rust: BTreeMap::new(),
        acquiring: BTreeMap::new(),
        held: BTreeMap::new(),
    };
    for step in script.split(['\n', ';']).map(str::trim) {
        println!("{step}");
        let words: Vec<&str> = step.split(' ').collect();
        if words[0].starts_with("java") && !play.start_java(&address, words[0]) {
            return;
        }
        play.step(&address, &words).await;
    }
}

impl Play {
    /// Returns false if there is no Java.
    fn start_java(&mut self, address: &str, who: &str) -> bool {
        let (client, _) = who.split_once('.').unwrap_or((who, ""));
        if !self.java.contains_key(client) {
            let timeout = if client == "java" { LONG } else { SHORT };
            let Some(java) = Curator::start(address, timeout, &[]) else { return false };
            self.java.insert(client.to_owned(), java);
        }
        true
    }

    async fn step(&mut self, address: &str, words: &[&str]) {
        let who = words[0];
        let (client, actor) = who.split_once('.').unwrap_or((who, ""));
        if client.starts_with("rust") && !self.rust.contains_key(client) {
            let timeout = if client == "rust" { LONG } else { SHORT };
            self.rust.insert(client.to_owned(), connect(address, timeout).await);
        }
        match (words, self.java.get_mut(client)) {
            (["nodes", count], _) => self.expect_nodes(count.parse().unwrap()).await,
            ([kind, "lists", count], _) => self.expect_listed(kind, count.parse().unwrap()).await,
            ([_, "acquires", kind], Some(java)) => {
                java.ok(actor, &acquire(kind, &self.path, -1));
            }
            ([_, "acquires", kind], None) => {
                self.begin(client, who, kind);
                self.expect_granted(who).await;
            }
            ([_, "queues", kind], java) => {
                let before = nodes(&self.observer, &self.path).await;
                match java {
                    Some(java) => java.tell(actor, &acquire(kind, &self.path, -1)),
                    None => self.begin(client, who, kind),
                }
                let has_queued = async || {
                    let now = nodes(&self.observer, &self.path).await;
                    now.difference(&before).next().map(|_| ())
                };
                eventually(LIMIT, has_queued).await.expect("it does not queue");
            }
            ([_, "gets"], Some(java)) => assert_eq!(java.answer(actor)[0], "ok"),
            ([_, "gets"], None) => self.expect_granted(who).await,
            ([_, "waits"], Some(java)) => assert!(!java.has_answered(actor), "it does not wait"),
            ([_, "waits"], None) => {
                assert!(!self.acquiring[who].is_finished(), "it does not wait");
            }
            ([_, "releases"], Some(java)) => drop(java.ok(actor, "release")),
            ([_, "releases"], None) => {
                self.held.remove(who).unwrap().release_boxed().await.unwrap();
            }
            ([_, "misses", kind], Some(java)) => {
                assert_eq!(java.ask(actor, &acquire(kind, &self.path, 200)), ["timeout"]);
            }
            ([_, "misses", kind], None) => {
                let lock = LockSpec::new(kind, &self.path).lock(&self.rust[client]).unwrap();
                assert!(lock.try_acquire_boxed().await.unwrap().is_none());
            }
            ([_, "gives-up"], None) => self.acquiring.remove(who).unwrap().abort(),
            ([_, "closes"], None) => {
                self.rust.remove(client).unwrap().close().await;
                self.expect_ended(client).await;
            }
            ([_, "dies"], Some(_)) => self.java.remove(client).unwrap().kill(),
            ([_, "dies"], None) => {
                self.rust.remove(client).unwrap().detach().expect("a session");
                self.expect_ended(client).await;
            }
            _ => panic!("{words:?}"),
        }
    }

    fn begin(&mut self, client: &str, who: &str, kind: &str) {
        let (lock, client) = (LockSpec::new(kind, &self.path), self.rust[client].clone());
        let acquiring = tokio::spawn(async move { lock.acquire(&client).await });
        self.acquiring.insert(who.to_owned(), acquiring);
    }

    async fn expect_granted(&mut self, who: &str) {
        let acquiring = self.acquiring.remove(who).unwrap();
        let granted = tokio::time::timeout(LIMIT, acquiring).await.expect("it waits").unwrap();
        self.held.insert(who.to_owned(), granted.unwrap());
    }

    /// Expects that a client has lost what it holds, and acquires nothing more.
    async fn expect_ended(&mut self, client: &str) {
        let is_own = |who: &str| who.split_once('.').is_some_and(|(of, _)| of == client);
        for (who, acquiring) in std::mem::take(&mut self.acquiring) {
            if is_own(&who) {
                assert!(acquiring.await.unwrap().is_err(), "{who}");
            } else {
                self.acquiring.insert(who, acquiring);
            }
        }
        for (who, guard) in self.held.iter().filter(|(who, _)| is_own(who)) {
            let loss = guard.lost_boxed().await;
            assert!(matches!(loss, LossReason::SessionEnded(_)), "{who}: {loss}");
        }
    }

    async fn expect_nodes(&self, count: usize) {
        let mut seen = BTreeSet::new();
        let is_so = eventually(LIMIT, async || {
            seen = nodes(&self.observer, &self.path).await;
            (seen.len() == count).then_some(())
        });
        assert!(is_so.await.is_some(), "not {count} nodes but {seen:?}");
    }

    async fn expect_listed(&mut self, kind: &str, count: usize) {
        let lock = LockSpec::new(kind, &self.path);
        let java = self.java.values_mut().next().expect("a client of Java");
        let curators = format!("participants {} {}", command(kind).0, self.path);
        let is_so = eventually(LIMIT, async || {
            (lock.participants(&self.observer).await.unwrap().len() == count).then_some(())
        });
        assert!(is_so.await.is_some(), "{:?}", lock.participants(&self.observer).await);
        let ours = lock.participants(&self.observer).await.unwrap();
        let mut theirs = java.ok("observer", &curators);
        theirs.sort_by(|a, b| a[a.len() - 10..].cmp(&b[b.len() - 10..])); // not all are sorted
        // Curator lists the permits of a semaphore without their path.
        let is_same = |(ours, theirs): (&String, &String)| ours.ends_with(theirs);
        assert!(ours.iter().zip(&theirs).all(is_same), "{ours:?} {theirs:?}");
        assert_eq!(ours.len(), theirs.len());
    }
}

/// Returns the name of a kind in Curator's commands, and its numbers.
pub(crate) fn command(kind: &str) -> (&str, String) {
    match kind.split_once(':') {
        None => (kind, "0 0".to_owned()),
        Some((kind, permits)) => {
            let (taken, of) = permits.split_once('/').unwrap();
            (kind, format!("{of} {taken}"))
        }
    }
}

/// Returns the command for Curator to acquire a lock.
pub(crate) fn acquire(kind: &str, path: &str, timeout_ms: i32) -> String {
    let (kind, numbers) = command(kind);
    format!("acquire {kind} {path} {numbers} {timeout_ms}")
}

/// Returns the paths of all contenders' nodes.
pub(crate) async fn nodes(client: &Client, path: &str) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for path in [path.to_owned(), format!("{path}/locks"), format!("{path}/leases")] {
        // A path that does not exist has no contenders.
        let Ok(children) = client.get_children(&path).await else { continue };
        let contenders =
            children.names.names().filter(|name| *name != "locks" && *name != "leases");
        nodes.extend(contenders.map(|name| format!("{path}/{name}")));
    }
    nodes
}
