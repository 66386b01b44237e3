//! Checks of shared values: a compare-and-set applies only to the version that was read, and every
//! value that is read has existed.

use crate::ensure::ensure;
use zk_coordination::session::Zxid;

/// Path of the shared count.
pub(crate) const COUNT_PATH: &str = "/shared/count";
pub(crate) const VALUE_PATH: &str = "/shared/value";

/// The history of the shared count and the shared value.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The last count. Every set adds exactly one to the count that was read.
    count: Option<i32>,
    /// All values, with the transactions that set them. No two values are equal.
    values: Vec<(Zxid, Vec<u8>)>,
}

impl Shared {
    /// Records new data of one of the nodes.
    pub(super) fn put(&mut self, path: &str, zxid: Zxid, data: &[u8]) -> Result<(), String> {
        match path {
            COUNT_PATH => {
                let count = <[u8; 4]>::try_from(data).map_or(i32::MIN, i32::from_be_bytes);
                let before = self.count.replace(count);
                ensure(count == before.map_or(0, |before| before + 1), || {
                    format!("the count went from {before:?} to {count}")
                })?;
            }
            VALUE_PATH => self.values.push((zxid, data.to_vec())),
            _ => {}
        }
        Ok(())
    }

    /// Checks a value that was read.
    pub(super) fn read(&self, zxid: Zxid, data: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(data);
        ensure(self.values.iter().any(|(at, value)| *at == zxid && value == data), || {
            format!("{text} was read as of {zxid}, and was never there")
        })
    }

    /// Checks a compare-and-set that succeeded. It must have replaced the value set at `before`.
    pub(super) fn swapped(&self, before: Zxid, zxid: Zxid, data: &[u8]) -> Result<(), String> {
        self.read(zxid, data)?;
        let last = self.values.iter().rev().find(|(at, _)| *at < zxid).map(|(at, _)| *at);
        ensure(last == Some(before), || format!("set at {zxid} upon {last:?}, not upon {before}"))
    }

    /// Checks a set that was not applied. `before` is the version that was read, if a newer one
    /// prevented the set. It is `None` if the request failed with an error.
    pub(super) fn not_set(&self, before: Option<Zxid>, data: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(data);
        ensure(!self.values.iter().any(|(_, value)| value == data), || {
            format!("{text} was set, and said not to be")
        })?;
        ensure(
            !before.is_some_and(|before| self.values.iter().all(|(at, _)| *at <= before)),
            || format!("{text}: nobody was faster"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_must_grow_by_one() {
        let mut shared = Shared::default();
        let mut put = |count: i32| shared.put(COUNT_PATH, Zxid(1), &count.to_be_bytes());
        assert!(put(0).is_ok());
        assert!(put(1).is_ok());
        assert!(put(1).is_err());
    }

    #[test]
    fn swap_must_replace_the_version_that_was_read() {
        let mut shared = Shared::default();
        for (zxid, data) in [(1, b"a"), (5, b"b"), (7, b"c")] {
            assert!(shared.put(VALUE_PATH, Zxid(zxid), data).is_ok());
        }
        assert!(shared.swapped(Zxid(1), Zxid(5), b"b").is_ok());
        assert!(shared.swapped(Zxid(1), Zxid(7), b"c").is_err());
        assert!(shared.read(Zxid(5), b"c").is_err());
        assert!(shared.not_set(Some(Zxid(5)), b"d").is_ok());
        assert!(shared.not_set(Some(Zxid(7)), b"d").is_err());
        assert!(shared.not_set(None, b"a").is_err());
    }
}
