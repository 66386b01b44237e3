//! How many permits there may be: never more leases than a limit that was in force while the
//! newest of them was there.

use super::claims::{Claim, Share};

/// Where the limit is, if it is one that changes.
pub(crate) const LIMIT_PATH: &str = "/limit";

/// The limits that there were, with the transactions that set them.
#[derive(Debug, Default)]
pub(super) struct Limits {
    fixed: Option<u32>,
    changes: Vec<(i64, u32)>,
}

impl Limits {
    pub(super) fn fix(&mut self, limit: u32) {
        self.fixed = Some(limit);
    }

    /// The shared count was set. It is what a count below zero is, too.
    pub(super) fn set(&mut self, zxid: i64, data: &[u8]) {
        let count = <[u8; 4]>::try_from(data).map_or(0, i32::from_be_bytes);
        self.changes.push((zxid, u32::try_from(count).unwrap_or(0)));
    }

    /// The largest that was in force then or later.
    fn largest_since(&self, zxid: i64) -> u32 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let before = self.changes.iter().rev().find(|(at, _)| *at <= zxid);
        let after = self.changes.iter().filter(|(at, _)| *at > zxid);
        after.chain(before).map(|(_, limit)| *limit).max().unwrap_or(0)
    }

    /// Looks at how many leases there are up to one that is granted, itself included.
    pub(super) fn granted(&self, leases: usize, czxid: i64) -> Result<(), String> {
        let limit = self.largest_since(czxid);
        match u32::try_from(leases).is_ok_and(|leases| leases <= limit) {
            true => Ok(()),
            false => Err(format!("granted as number {leases} of {limit}")),
        }
    }

    /// Looks at how many permits are held; `czxid_of` is `None` for a node that is not there.
    pub(super) fn check(
        &self,
        valid: &[(u64, &Claim)],
        czxid_of: impl Fn(&str) -> Option<i64>,
    ) -> Result<(), String> {
        let permits = valid.iter().filter(|(_, claim)| claim.share == Share::Permit);
        let nodes: Vec<i64> = permits.filter_map(|(_, claim)| czxid_of(&claim.node)).collect();
        let Some(newest) = nodes.iter().max() else { return Ok(()) };
        let (held, limit) = (nodes.len(), self.largest_since(*newest));
        match u32::try_from(held).is_ok_and(|held| held <= limit) {
            true => Ok(()),
            false => Err(format!("{held} permits are held of {limit}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_one_that_was_in_force_since_the_lease_came() {
        let mut limits = Limits::default();
        for (zxid, limit) in [(1, 5), (10, 1), (20, 2)] {
            limits.set(zxid, &i32::to_be_bytes(limit));
        }
        assert!(limits.granted(5, 9).is_ok());
        assert!(limits.granted(2, 10).is_ok());
        assert!(limits.granted(3, 10).is_err());
        assert!(limits.granted(6, 9).is_err());
        limits.set(30, &i32::to_be_bytes(-1));
        assert!(limits.granted(1, 30).is_err());
    }

    #[test]
    fn permits_are_counted() {
        let mut limits = Limits::default();
        limits.fix(2);
        let claims = ["/1", "/2", "/3"].map(|node| Claim::new("/s", node, Share::Permit));
        let valid: Vec<(u64, &Claim)> = (1..).zip(&claims).collect();
        let czxid_of = |node: &str| node[1..].parse().ok();
        assert!(limits.check(&valid, czxid_of).is_err());
        assert!(limits.check(&valid[..2], czxid_of).is_ok());
    }
}
