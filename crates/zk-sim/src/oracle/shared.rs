//! Shared values: a compare-and-set takes effect upon what was read and upon nothing else, and
//! what is read was there.

/// The nodes.
pub(crate) const COUNT_PATH: &str = "/shared/count";
pub(crate) const VALUE_PATH: &str = "/shared/value";

/// All that the two have been.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Only ever set to one more than was read.
    count: Option<i32>,
    /// With the transactions that set it; no two are the same.
    values: Vec<(i64, Vec<u8>)>,
}

impl Shared {
    /// One of the nodes has new data.
    pub(super) fn put(&mut self, path: &str, zxid: i64, data: &[u8]) -> Result<(), String> {
        match path {
            COUNT_PATH => {
                let count = <[u8; 4]>::try_from(data).map_or(i32::MIN, i32::from_be_bytes);
                let before = self.count.replace(count);
                if count != before.map_or(0, |before| before + 1) {
                    return Err(format!("the count went from {before:?} to {count}"));
                }
            }
            VALUE_PATH => self.values.push((zxid, data.to_vec())),
            _ => {}
        }
        Ok(())
    }

    /// Somebody has read the value.
    pub(super) fn read(&self, zxid: i64, data: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(data);
        match self.values.iter().any(|(at, value)| *at == zxid && value == data) {
            true => Ok(()),
            false => Err(format!("{text} was read as of {zxid:#x}, and was never there")),
        }
    }

    /// Somebody has set the value, if it still was the one of `before`.
    pub(super) fn swapped(&self, before: i64, zxid: i64, data: &[u8]) -> Result<(), String> {
        self.read(zxid, data)?;
        let last = self.values.iter().rev().find(|(at, _)| *at < zxid).map(|(at, _)| *at);
        match last == Some(before) {
            true => Ok(()),
            false => Err(format!("set at {zxid:#x} upon {last:x?}, not upon {before:#x}")),
        }
    }

    /// Somebody was told of an outcome, or, with `None`, that somebody else was faster.
    pub(super) fn not_set(&self, before: Option<i64>, data: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(data);
        if self.values.iter().any(|(_, value)| value == data) {
            return Err(format!("{text} was set, and said not to be"));
        }
        match before.is_some_and(|before| self.values.iter().all(|(at, _)| *at <= before)) {
            true => Err(format!("{text}: nobody was faster")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_goes_up_by_one() {
        let mut shared = Shared::default();
        let mut put = |count: i32| shared.put(COUNT_PATH, 1, &count.to_be_bytes());
        assert!(put(0).is_ok());
        assert!(put(1).is_ok());
        assert!(put(1).is_err());
    }

    #[test]
    fn a_value_is_set_upon_what_was_read() {
        let mut shared = Shared::default();
        for (zxid, data) in [(1, b"a"), (5, b"b"), (7, b"c")] {
            assert!(shared.put(VALUE_PATH, zxid, data).is_ok());
        }
        assert!(shared.swapped(1, 5, b"b").is_ok());
        assert!(shared.swapped(1, 7, b"c").is_err());
        assert!(shared.read(5, b"c").is_err());
        assert!(shared.not_set(Some(5), b"d").is_ok());
        assert!(shared.not_set(Some(7), b"d").is_err());
        assert!(shared.not_set(None, b"a").is_err());
    }
}
