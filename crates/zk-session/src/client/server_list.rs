//! Discovery of servers, and the upkeep of a session's list of servers.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use futures::future::{join, select};
use proto::Zxid;
use zk_session_core::{Host, IoFailure, RetryOn};

use super::session::invalid;
use super::{Client, EnsembleConfig, SessionEvents};
use crate::driver::{Beside, TlsUse};
use crate::limits::{
    DISCOVERY_AFTER_PART, DISCOVERY_PAUSE_MAX, DISCOVERY_PAUSE_MIN, DISCOVERY_TIMEOUT, FOLLOW_PAUSE,
};
use crate::trace;

/// A source of the ensemble's servers besides the connect string, for example DNS or a registry.
/// [`Config::discover`](crate::Config::discover) takes it. The crate `zk-srv` has one for DNS SRV records.
///
/// A list may [rank](Host::with_rank) its servers. One that prefers its own availability zone:
///
/// ```
/// use zk_session::{Host, ServerList, ServerListing};
///
/// #[derive(Debug)]
/// struct Registry {
///     zone: &'static str,
/// }
///
/// impl ServerList for Registry {
///     fn servers(&self) -> ServerListing {
///         let zone = self.zone;
///         Box::pin(async move {
///             let found = [("zk1.a.example.com", "a"), ("zk2.b.example.com", "b")]; // ask a service here
///             let ranked = |(name, at)| Host::new(name, 2181).with_rank(u16::from(at != zone));
///             Ok(found.map(ranked).into())
///         })
///     }
/// }
/// ```
pub trait ServerList: fmt::Debug + Send + Sync + 'static {
    /// Returns a future of the servers that the ensemble has now.
    ///
    /// The future is dropped after [`DISCOVERY_TIMEOUT`]. It must not block its thread, which may drive
    /// the session. Several sessions with the same configuration may ask at the same time.
    fn servers(&self) -> ServerListing;
}

/// Future of [`ServerList::servers`]. An error or an empty list changes nothing.
pub type ServerListing = Pin<Box<dyn Future<Output = io::Result<Vec<Host>>> + Send>>;

/// Returns the servers of the list, if a session may use them, in `limit` at most.
pub(super) async fn ask(
    list: &dyn ServerList,
    tls: TlsUse,
    limit: Duration,
) -> Result<Vec<Host>, IoFailure> {
    let answer = tokio::time::timeout(limit.min(DISCOVERY_TIMEOUT), list.servers());
    let late =
        || io::Error::new(io::ErrorKind::TimedOut, "the list of servers did not answer in time");
    let answered = answer.await.unwrap_or_else(|_| Err(late()));
    let checked = answered.and_then(|servers| {
        if servers.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the list of servers is empty"));
        }
        tls.check(&servers).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        Ok(servers)
    });
    checked.map_err(IoFailure::from).inspect_err(trace::server_list_failed)
}

/// What changes the servers of a session from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Upkeep {
    pub(super) list: Option<Arc<dyn ServerList>>,
    pub(super) follows_members: bool,
    /// True if the list is to be asked as soon as the session opens.
    pub(super) asks_at_once: bool,
}

impl Upkeep {
    /// Returns the work beside a session, if there is any. `weak` returns a weak handle to the session.
    pub(super) fn of(self, weak: impl FnOnce() -> Client) -> Option<Beside> {
        if self.list.is_none() && !self.follows_members {
            return None;
        }
        let client = weak();
        Some(Box::pin(async move {
            let discovers = async {
                if let Some(list) = &self.list {
                    renew(&client, &**list, self.asks_at_once).await;
                }
            };
            let follows = async {
                if self.follows_members {
                    follow(&client).await;
                }
            };
            select(pin!(client.wait_for_end()), pin!(join(discovers, follows))).await;
        }))
    }
}

/// Asks the list for servers while no server can be reached, until the session ends.
async fn renew(client: &Client, list: &dyn ServerList, asks_at_once: bool) {
    let mut events = client.events();
    if asks_at_once {
        replace(client, ask(list, client.shared.tls, DISCOVERY_TIMEOUT).await);
    }
    let mut pause = None;
    while until(&mut events, || !client.is_connected()).await {
        let first = DISCOVERY_AFTER_PART.of(client.session_timeout()).max(DISCOVERY_PAUSE_MIN);
        let next: Duration = pause.unwrap_or(first);
        let found = until(&mut events, || client.is_connected());
        if tokio::time::timeout(next, found).await.is_ok() {
            pause = None;
            continue;
        }
        pause = Some((next * 2).min(DISCOVERY_PAUSE_MAX.max(first)));
        let asked = ask(list, client.shared.tls, DISCOVERY_TIMEOUT).await;
        // A server that was found meanwhile is no reason to move.
        if !client.is_connected() {
            replace(client, asked);
        }
    }
}

fn replace(client: &Client, asked: Result<Vec<Host>, IoFailure>) {
    match asked {
        Ok(servers) => {
            trace::servers_replaced(&servers);
            client.replace_hosts(servers);
        }
        Err(failure) => client.shared.lock().handle_server_list_failed(failure),
    }
}

/// Follows the ensemble's configuration until the session ends, or the servers do not show it.
async fn follow(client: &Client) {
    let mut events = client.events();
    let mut newest: Option<Zxid> = None;
    while until(&mut events, || client.is_connected()).await {
        let lost = client.connections_lost();
        match client.get_config_and_watch().await {
            Ok((config, changed)) => {
                // A server that lags, or is without a quorum, may show an older one.
                let is_newer = newest.is_none_or(|newest| config.zxid > newest);
                if is_newer && !client.is_read_only() {
                    let is_first = newest.replace(config.zxid).is_none();
                    take_members(client, &config, is_first);
                }
                let reconnected = until(&mut events, || client.connections_lost() != lost);
                select(changed, pin!(reconnected)).await;
            }
            Err(error) if error.retry_on() == RetryOn::SameSession => {
                tokio::time::sleep(FOLLOW_PAUSE).await;
            }
            Err(error) => return trace::members_not_followed(&error),
        }
    }
}

/// Takes the servers of the configuration if that has an address for each. With the first one, the session
/// stays at its server: to balance the load, half of all sessions would move right after they are opened,
/// and all of them if the connect string has other names.
///
/// A configuration that is not dynamic need not have them. A list of those that it has would lose servers
/// that work.
fn take_members(client: &Client, config: &EnsembleConfig, is_first: bool) {
    let taken = client.servers_of(config).and_then(|servers| {
        // Lines that cannot be parsed are no members, and are servers all the same.
        let is_member = |line: &&str| line.trim_start().starts_with("server.");
        if servers.hosts().len() < config.text.lines().filter(is_member).count() {
            return Err(invalid("some members have no address for clients".to_owned()));
        }
        client.stay_with_tls(servers.hosts())?;
        let hosts = servers.hosts().to_vec();
        if is_first {
            client.shared.lock().update_servers_and_stay(hosts);
        } else {
            client.replace_hosts(hosts);
        }
        Ok(())
    });
    match taken {
        Ok(()) => trace::members_followed(&config.text),
        Err(error) => trace::members_not_followed(&error),
    }
}

/// Waits until the condition holds, which an event of the session may change. Returns false if the session
/// has ended.
async fn until(events: &mut SessionEvents, is_so: impl Fn() -> bool) -> bool {
    while !is_so() {
        if events.next().await.is_none() {
            return false;
        }
    }
    true
}
