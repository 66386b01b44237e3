//! The id that the names of all contenders in a queue have in common.
//!
//! A name is `_c_<id>-<lock name><number>`. With a random id, a contender has to list the queue to know
//! the name ahead of its own. With a common id the name ahead follows from the own number, and no list is
//! needed. The common id is the czxid of the queue's node. The numbers begin again only when that node is
//! made anew, so no name with its czxid is used twice.
//!
//! A random id also tells which node a create with a lost reply has made. With the common id, it is one of
//! the session's own nodes that no attempt of the session has. So the attempts of a session
//! [claim](CommonId::claim) their nodes. All of them have the same data and ACL, and do not care which of
//! the nodes they get. docs/marked-release.md of the repository says why this is safe.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zk_session::path::{child, protection_prefix};
use zk_session::{Client, Created, Error, Zxid};

use crate::child_order::DIGITS;
use crate::limits::COMMON_ID_CREATES_MAX;
use crate::retry::{retry, retry_if_unknown};

/// What a session knows about one queue with a common id.
#[derive(Debug)]
pub(crate) struct CommonId {
    /// The path of the queue's node, without a chroot.
    queue: String,
    all: Weak<CommonIds>,
    state: Mutex<State>,
    /// One search at a time. Otherwise a search could end by a list from before the node was made that
    /// another one has left for it.
    search: tokio::sync::Mutex<()>,
}

/// The queues of a session, by their paths.
#[derive(Debug, Default)]
pub(crate) struct CommonIds(Mutex<HashMap<String, Weak<CommonId>>>);

#[derive(Debug, Default)]
struct State {
    /// The czxid of the queue's node, as last seen.
    parent: Option<Zxid>,
    /// Set once the names are of use: servers distinguish a [marked release](super::machine). It is the
    /// newest transaction known by then. Nodes of the session that are not newer are those of an earlier
    /// process.
    since: Option<Zxid>,
    /// The name ahead was known to be a contender's at the last look.
    guesses: bool,
    /// Names that attempts of this session have.
    claimed: HashSet<Box<str>>,
    /// Names that were found after a lost reply. Another attempt whose reply has arrived does not get them
    /// any more, however late it looks. They are forgotten when no create is unresolved.
    found: HashSet<Box<str>>,
    /// Creates whose node is neither known nor known not to exist.
    unresolved: usize,
}

/// A create whose node is neither known nor known not to exist.
pub(crate) struct Unresolved(Arc<CommonId>);

/// The only right of the session's attempts to a node. Dropping it ends the claim.
pub(crate) struct Claim {
    id: Arc<CommonId>,
    name: Box<str>,
}

impl CommonId {
    /// Returns what the session knows about the queue at this path.
    pub(crate) fn of(client: &Client, path: &str) -> Arc<Self> {
        let all = client.session_value::<CommonIds>();
        let queue = client.full_path(path);
        let mut queues = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = queues.get(&queue).and_then(Weak::upgrade) {
            return known;
        }
        let state = Mutex::new(State { guesses: true, ..State::default() });
        let search = tokio::sync::Mutex::new(());
        let id = Arc::new(Self { queue: queue.clone(), all: Arc::downgrade(&all), state, search });
        queues.insert(queue, Arc::downgrade(&id));
        id
    }

    /// Returns the czxid of the queue's node, for names with the common id. Returns `None` as long as they
    /// would be of no use, or if [too many](COMMON_ID_CREATES_MAX) creates are unresolved.
    pub(crate) fn parent(&self) -> Option<Zxid> {
        let state = self.state();
        let is_used =
            state.since.is_some() && state.unresolved + state.found.len() < COMMON_ID_CREATES_MAX;
        state.parent.filter(|_| is_used)
    }

    /// Returns true if a contender ahead is likely to have the [guessed](guess) name.
    pub(crate) fn guesses(&self) -> bool {
        self.state().guesses
    }

    /// Notes that servers distinguish a marked release.
    pub(crate) fn has_marks(&self, client: &Client) {
        self.state().since.get_or_insert_with(|| client.last_zxid());
    }

    pub(crate) fn saw_parent(&self, czxid: Zxid) {
        let mut state = self.state();
        state.parent = state.parent.max(Some(czxid)); // an answer may be read late
    }

    /// Notes a create that is about to be requested.
    pub(crate) fn begin_create(self: &Arc<Self>) -> Unresolved {
        self.state().unresolved += 1;
        Unresolved(self.clone())
    }

    /// Notes whether the contender ahead of `own` has the guessed name.
    pub(crate) fn saw_ahead(&self, own: &str, ahead: &[u8]) {
        let is_guessed = guess(own).is_some_and(|guess| guess.as_bytes() == ahead);
        self.state().guesses = is_guessed;
    }

    /// Claims a node that a create of this session has made, for the attempt that has received the reply.
    /// Returns `None` if another attempt has found the node before.
    pub(crate) fn claim(self: &Arc<Self>, name: &str) -> Option<Claim> {
        let mut state = self.state();
        if !state.is_free(name) {
            return None;
        }
        state.claimed.insert(name.into());
        Some(Claim { id: self.clone(), name: name.into() })
    }

    /// Searches for the node of a create whose reply was lost: one of the session's that no attempt has. Its
    /// name begins with `start`, and has this czxid of the queue's node.
    ///
    /// Deletes the nodes instead if the queue's node is another one by now. Nobody uses a stale name, and the
    /// claims are those of an earlier node that had it.
    ///
    /// # Errors
    /// As [`Client::find_own`]. The search can be repeated.
    pub(crate) async fn find(
        self: &Arc<Self>,
        client: &Client,
        path: &str,
        start: &str,
        parent: Zxid,
    ) -> Result<Option<(Created, Claim)>, Error> {
        let _one_at_a_time = self.search.lock().await;
        let since = self.state().since;
        let names = retry_if_unknown(client, || client.find_own(path, start)).await?;
        // As long as one of these nodes exists, this is their parent.
        let Some(now) = retry(client, || client.exists(path)).await? else { return Ok(None) };
        self.saw_parent(now.czxid);
        if now.czxid != parent {
            names.iter().for_each(|name| drop(client.delete_guaranteed(&child(path, name))));
            return Ok(None);
        }
        for name in names {
            if !self.state().is_free(&name) {
                continue;
            }
            let path = child(path, &name);
            let stat = retry(client, || client.exists(&path)).await?;
            let Some(stat) = stat.filter(|stat| Some(stat.czxid) > since) else { continue };
            let Some(claim) = self.claim(&name) else { continue };
            if !client.is_deleting(&path) {
                self.state().found.insert(name.into());
                return Ok(Some((Created { path, stat }, claim)));
            }
        }
        Ok(None)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns true if no attempt has or had a node of this name.
    fn is_free(&self, name: &str) -> bool {
        !self.claimed.contains(name) && !self.found.contains(name)
    }
}

/// Digits of a common id. A random one of this length is too large for a zxid.
const ID_LEN: usize = 16;

/// Returns the start of the names whose id is the czxid of the queue's node.
pub(crate) fn prefix(parent: Zxid) -> String {
    protection_prefix(&format!("{:0ID_LEN$x}", parent.0))
}

/// Returns the name ahead of a name with a common id.
pub(crate) fn guess(own: &str) -> Option<String> {
    let (text, number) = own.split_at_checked(own.len().checked_sub(DIGITS)?)?;
    let ahead = number.parse::<u32>().ok()?.checked_sub(1)?;
    Some(format!("{text}{ahead:0DIGITS$}"))
}

/// Returns true if the contender with this name may be first in the queue whose node has this czxid. One with
/// the id of another node may not, and its name may have been another contender's.
pub(crate) fn may_be_first(name: &str, parent: Zxid) -> bool {
    let id = name.strip_prefix("_c_").and_then(|rest| rest.get(..ID_LEN + 1)?.strip_suffix('-'));
    let czxid = id.and_then(|id| i64::from_str_radix(id, 16).ok());
    czxid.is_none_or(|czxid| czxid == parent.0)
}

impl Drop for CommonId {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let mut queues = all.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Another one may have been made meanwhile.
            if queues.get(&self.queue).is_some_and(|id| id.strong_count() == 0) {
                queues.remove(&self.queue);
            }
        }
    }
}

impl Drop for Unresolved {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.unresolved -= 1;
        if state.unresolved == 0 {
            state.found.clear();
        }
    }
}

impl fmt::Debug for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unresolved")
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.id.state().claimed.remove(&self.name);
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.name).finish()
    }
}
