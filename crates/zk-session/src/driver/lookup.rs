//! Lookups of host names.
//!
//! The resolver of the operating system blocks a thread, for half a minute if its servers are silent, and
//! cannot be stopped. An attempt at a server ends earlier, and the next one needs the name again. So a
//! lookup has a thread of its own, and all attempts of the process that need the same name share it. In
//! tokio's pool, the threads of a few sessions would keep out the program's own work, and delay the end
//! of the runtime.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{io, process};

use tokio::sync::watch;

use crate::limits::{LOOKUP_KEPT, LOOKUPS_MAX};

/// Returns the addresses of a host.
///
/// # Errors
/// With the kind `NotFound` if the name is unknown; with another kind if [`LOOKUPS_MAX`] others are being
/// looked up.
pub(super) async fn lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    static LOOKUPS: Lookups = Lookups::new();
    let resolve = |name: &str| match (name, 0).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(io::Error::new(io::ErrorKind::NotFound, error)),
    };
    let found = LOOKUPS.find(name, resolve).await?;
    Ok(found
        .into_iter()
        .map(|mut address| {
            address.set_port(port);
            address
        })
        .collect())
}

/// Lookups under way, and those that ended after the last attempt had given up, by name.
struct Lookups(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    answer: watch::Receiver<Option<Found>>,
    /// When it ended, if nobody waited for it any more.
    ended: Option<Instant>,
    /// The process. Its child has the entries and not the threads.
    process: u32,
}

impl Entry {
    fn is_under_way(&self) -> bool {
        self.ended.is_none() && self.process == process::id()
    }

    /// Returns true if the next attempt uses it.
    fn is_of_use(&self) -> bool {
        let is_fresh = |ended: Instant| now() - ended < LOOKUP_KEPT;
        self.is_under_way() || self.ended.is_some_and(is_fresh)
    }
}

/// The result of a lookup, for all who wait for it.
type Found = Result<Vec<SocketAddr>, Arc<io::Error>>;

impl Lookups {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the result of the lookup under way, or begins one with `resolve`.
    async fn find(
        &'static self,
        name: &str,
        resolve: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let mut answer = self.under_way(name, resolve)?;
        // Without an answer, the resolver has panicked.
        let found = answer.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        let found = found.unwrap_or_else(|| Err(Arc::new(io::ErrorKind::Other.into())));
        found.map_err(|error| io::Error::new(error.kind(), error))
    }

    fn under_way(
        &'static self,
        name: &str,
        resolve: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut lookups = self.entries();
        lookups.retain(|_, entry| entry.is_of_use());
        match lookups.get(name) {
            Some(entry) if entry.is_under_way() => return Ok(entry.answer.clone()),
            _ => {}
        }
        if let Some(ended) = lookups.remove(name) {
            return Ok(ended.answer);
        }
        if lookups.values().filter(|entry| entry.is_under_way()).count() >= LOOKUPS_MAX {
            let busy = "too many host names are being looked up";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, busy));
        }
        let (tell, answer) = watch::channel(None);
        let own_name = name.to_owned();
        std::thread::Builder::new().name("zk-lookup".to_owned()).spawn(move || {
            let own = Lookup { name: own_name, lookups: self, tell };
            let found = resolve(&own.name).map_err(Arc::new);
            own.end(found);
        })?;
        let entry = Entry { answer: answer.clone(), ended: None, process: process::id() };
        lookups.insert(name.to_owned(), entry);
        Ok(answer)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lookup. Its entry ends with it, unless nobody waits for the answer any more: a resolver that is slower
/// than an attempt would otherwise be of no use to the next one either.
struct Lookup {
    name: String,
    lookups: &'static Lookups,
    tell: watch::Sender<Option<Found>>,
}

impl Lookup {
    /// Ends the entry before the answer is told: whoever has the answer asks anew the next time.
    fn end(self, found: Found) {
        let mut entries = self.lookups.entries();
        // The entry itself is one receiver.
        let is_unheard = self.tell.receiver_count() <= 1;
        match entries.get_mut(&self.name) {
            Some(entry) if is_unheard => entry.ended = Some(now()),
            _ => drop(entries.remove(&self.name)),
        }
        self.tell.send_replace(Some(found));
        drop(entries);
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        // Otherwise the entry may be that of the next lookup.
        let has_panicked = self.tell.borrow().is_none();
        if has_panicked {
            self.lookups.entries().remove(&self.name);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a thread without a runtime measures time here")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures::FutureExt;

    use super::*;

    /// One session left 23 threads behind.
    #[tokio::test]
    async fn attempts_share_the_lookup_of_a_name() -> io::Result<()> {
        static LOOKUPS: Lookups = Lookups::new();
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let address = SocketAddr::from(([10, 0, 0, 1], 0));
        let (answer, answers) = mpsc::channel();
        let answers = Arc::new(Mutex::new(answers));
        let find = || {
            let answers = Arc::clone(&answers);
            LOOKUPS.find("silent", move |_| {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.recv().map_err(io::Error::other)
            })
        };
        for _ in 0..50 {
            // The attempt ends before the answer.
            assert!(find().now_or_never().is_none());
        }
        let waits = std::pin::pin!(find());
        answer.send(vec![address]).map_err(io::Error::other)?;
        assert_eq!(waits.await?, [address]);
        assert_eq!(BEGUN.load(Ordering::Relaxed), 1);
        answer.send(Vec::new()).map_err(io::Error::other)?;
        assert_eq!(find().await?, []);
        assert_eq!(BEGUN.load(Ordering::Relaxed), 2, "the next one asks again");
        Ok(())
    }

    /// Each attempt has less time than the resolver takes. Otherwise none would ever have an address.
    #[tokio::test]
    async fn answer_that_comes_after_an_attempt_is_for_the_next_one() -> io::Result<()> {
        static LOOKUPS: Lookups = Lookups::new();
        let address = SocketAddr::from(([10, 0, 0, 1], 0));
        let (answer, answers) = mpsc::channel();
        let slow = LOOKUPS.under_way("slow", move |_| answers.recv().map_err(io::Error::other));
        drop(slow?);
        answer.send(vec![address]).map_err(io::Error::other)?;
        while LOOKUPS.entries().get("slow").is_some_and(Entry::is_under_way) {
            std::thread::yield_now();
        }
        let unused = |_: &str| Err(io::ErrorKind::Other.into());
        assert_eq!(LOOKUPS.find("slow", unused).await?, [address]);
        assert!(LOOKUPS.find("slow", unused).await.is_err(), "it is used once");
        Ok(())
    }

    #[tokio::test]
    async fn lookups_are_limited_and_other_names_go_on() -> io::Result<()> {
        static LOOKUPS: Lookups = Lookups::new();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for number in 0..=LOOKUPS_MAX {
            let ended = Arc::clone(&ended);
            let begun = LOOKUPS.under_way(&format!("silent-{number}"), move |_| {
                let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).recv();
                Err(io::ErrorKind::NotFound.into())
            });
            assert_eq!(begun.is_ok(), number < LOOKUPS_MAX);
        }
        let joined = LOOKUPS.under_way("silent-0", |_| Ok(Vec::new()))?;
        drop(end);
        let mut joined = joined;
        let found = joined.wait_for(Option::is_some).await.map_err(io::Error::other)?.clone();
        assert!(matches!(found, Some(Err(error)) if error.kind() == io::ErrorKind::NotFound));
        Ok(())
    }

    #[tokio::test]
    async fn address_is_not_looked_up() -> io::Result<()> {
        assert_eq!(lookup("::1", 7).await?, ["[::1]:7".parse().map_err(io::Error::other)?]);
        assert!(lookup("localhost", 7).await?.iter().all(|address| address.port() == 7));
        Ok(())
    }
}
