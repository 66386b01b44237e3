//! Recipes, and the parts of their nodes' names by which Curator and this crate recognize them.

use std::fmt;

use crate::child_order::DIGITS;

/// Text before the sequence number in the names of a mutex's nodes.
pub(crate) const LOCK: &str = "lock-";

/// Text before the sequence number in the names of Curator's `LeaderLatch`.
pub(crate) const LATCH: &str = "latch-";

/// Text before the sequence number in a reader's name.
pub(crate) const READ: &str = "__READ__";

/// Text before the sequence number in a writer's name. It is as long as a reader's, as in Curator.
pub(crate) const WRITE: &str = "__WRIT__";

/// Text before the sequence number in the names of a semaphore's leases.
pub(crate) const LEASE: &str = "lease-";

/// Name of the node that contains the leases of a semaphore.
pub(crate) const LEASES: &str = "leases";

/// A recipe, as identified by the names of its nodes; see
/// [`LockError::ForeignNode`](crate::LockError::ForeignNode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// A [`Mutex`](crate::Mutex) with the default lock name.
    Mutex,
    /// An election, on the nodes of Curator's `LeaderLatch`; see
    /// [`Mutex::LEADER_LATCH`](crate::Mutex::LEADER_LATCH).
    Election,
    /// A [`RwLock`](crate::RwLock).
    ReadWriteLock,
    /// A [`Semaphore`](crate::Semaphore), or a [`SemaphoreMutex`](crate::SemaphoreMutex).
    Semaphore,
    /// A lock of the Python client kazoo: `Lock`, `ReadLock`, `WriteLock` or `Election`.
    KazooLock,
    /// A semaphore of kazoo.
    KazooSemaphore,
    /// A lock, a queue lock or an election of the recipes that ZooKeeper ships with.
    ZooKeeperLock,
}

impl Recipe {
    /// Returns the recipe that uses such names. Returns `None` for names that no recipe uses.
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        if is_uuid_of_python(name) {
            return Some(Self::KazooSemaphore);
        }
        let (front, number) = name.split_last_chunk::<DIGITS>()?;
        if !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let recipes = [
            (LOCK, Self::Mutex),
            (LATCH, Self::Election),
            (READ, Self::ReadWriteLock),
            (WRITE, Self::ReadWriteLock),
            (LEASE, Self::Semaphore),
            ("__lock__", Self::KazooLock),
            ("__rlock__", Self::KazooLock),
        ];
        // `x-<session>-` of `WriteLock`, `n_` of `LeaderElectionSupport`.
        let is_of_zookeeper = front == b"n_" || (front.starts_with(b"x-") && front.ends_with(b"-"));
        let found = recipes.iter().find(|(text, _)| front.ends_with(text.as_bytes()));
        let found = found.map(|(_, recipe)| *recipe);
        found.or_else(|| is_of_zookeeper.then_some(Self::ZooKeeperLock))
    }

    /// Returns the recipe with its article, for messages.
    pub(crate) fn described(self) -> String {
        match self {
            Self::Election => format!("an {self}"),
            _ => format!("a {self}"),
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::Election => "election",
            Self::ReadWriteLock => "read-write lock",
            Self::Semaphore => "semaphore",
            Self::KazooLock => "lock of kazoo",
            Self::KazooSemaphore => "semaphore of kazoo",
            Self::ZooKeeperLock => "lock or election of ZooKeeper's own recipes",
        })
    }
}

/// Returns true for the hexadecimal digits of a UUID without hyphens, as Python's `uuid4().hex`.
fn is_uuid_of_python(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_prints_its_name() {
        let names = [
            (Recipe::Mutex, "mutex"),
            (Recipe::Election, "election"),
            (Recipe::ReadWriteLock, "read-write lock"),
            (Recipe::Semaphore, "semaphore"),
            (Recipe::KazooLock, "lock of kazoo"),
            (Recipe::KazooSemaphore, "semaphore of kazoo"),
            (Recipe::ZooKeeperLock, "lock or election of ZooKeeper's own recipes"),
        ];
        for (recipe, name) in names {
            assert_eq!(recipe.to_string(), name);
        }
    }

    #[test]
    fn recipe_is_recognised_by_lock_name_and_number() {
        let of = |name: &str| Recipe::of_name(name.as_bytes());
        let uuid = "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-";
        for prefix in ["", uuid] {
            let of = |name: &str| of(&format!("{prefix}{name}"));
            assert_eq!(of("lock-0000000007"), Some(Recipe::Mutex));
            assert_eq!(of("latch-0000000007"), Some(Recipe::Election));
            assert_eq!(of("__READ__0000000007"), Some(Recipe::ReadWriteLock));
            assert_eq!(of("__WRIT__0000000007"), Some(Recipe::ReadWriteLock));
            assert_eq!(of("lease-0000000007"), Some(Recipe::Semaphore));
        }
        let hex = "0b7f36dc3cc24b579c3e5c3ae2f1c0de";
        for (name, recipe) in [
            (format!("{hex}__lock__0000000007"), Recipe::KazooLock),
            (format!("{hex}__rlock__0000000007"), Recipe::KazooLock),
            (hex.to_owned(), Recipe::KazooSemaphore),
            ("x-72057594037927936-0000000007".to_owned(), Recipe::ZooKeeperLock),
            ("n_0000000007".to_owned(), Recipe::ZooKeeperLock),
        ] {
            assert_eq!(of(&name), Some(recipe), "{name}");
        }
        for name in
            ["", "0000000007", "lock-7", "lock-000000000x", "locks", "an_0000000007", &hex[1..]]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
