//! Limit of permits: the number of leases never exceeds a limit that was in force during the
//! lifetime of the newest one.

use zk_coordination::session::Zxid;

use super::claims::{Claim, Share};
use crate::ensure::ensure;

/// Path of the shared limit, if the limit can change.
pub(crate) const LIMIT_PATH: &str = "/limit";

/// All limits so far, with the transactions that set them.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    fixed: Option<u32>,
    changes: Vec<(Zxid, u32)>,
}

impl Limits {
    pub(crate) fn fix(&mut self, limit: u32) {
        self.fixed = Some(limit);
    }

    /// Records a new shared limit. Data that is not a count, and a count below zero, set the limit
    /// to 0.
    pub(super) fn set(&mut self, zxid: Zxid, data: &[u8]) {
        let count = <[u8; 4]>::try_from(data).map_or(0, i32::from_be_bytes);
        self.changes.push((zxid, u32::try_from(count).unwrap_or(0)));
    }

    /// Returns the largest limit in force at `zxid` or later.
    fn largest_since(&self, zxid: Zxid) -> u32 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let before = self.changes.iter().rev().find(|(at, _)| *at <= zxid);
        let after = self.changes.iter().filter(|(at, _)| *at > zxid);
        after.chain(before).map(|(_, limit)| *limit).max().unwrap_or(0)
    }

    /// Checks a grant. `leases` counts the leases up to the granted one, itself included.
    pub(super) fn granted(&self, leases: usize, czxid: Zxid) -> Result<(), String> {
        let limit = self.largest_since(czxid);
        ensure(u32::try_from(leases).is_ok_and(|leases| leases <= limit), || {
            format!("granted as number {leases} of {limit}")
        })
    }

    /// Checks the number of held permits. `czxid_of` returns `None` for a node that does not exist.
    pub(super) fn check(
        &self,
        valid: &[(u64, &Claim)],
        czxid_of: impl Fn(&str) -> Option<Zxid>,
    ) -> Result<(), String> {
        let permits = valid.iter().filter(|(_, claim)| claim.share == Share::Permit);
        let nodes: Vec<Zxid> = permits.filter_map(|(_, claim)| czxid_of(&claim.node)).collect();
        let Some(newest) = nodes.iter().max() else { return Ok(()) };
        let (held, limit) = (nodes.len(), self.largest_since(*newest));
        ensure(u32::try_from(held).is_ok_and(|held| held <= limit), || {
            format!("{held} permits are held of {limit}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_is_checked_against_largest_limit_since_creation() {
        let mut limits = Limits::default();
        for (zxid, limit) in [(1, 5), (10, 1), (20, 2)] {
            limits.set(Zxid(zxid), &i32::to_be_bytes(limit));
        }
        assert!(limits.granted(5, Zxid(9)).is_ok());
        assert!(limits.granted(2, Zxid(10)).is_ok());
        assert!(limits.granted(3, Zxid(10)).is_err());
        assert!(limits.granted(6, Zxid(9)).is_err());
        limits.set(Zxid(30), &i32::to_be_bytes(-1));
        assert!(limits.granted(1, Zxid(30)).is_err());
    }

    #[test]
    fn more_permits_than_the_limit_are_a_violation() {
        let mut limits = Limits::default();
        limits.fix(2);
        let claims = ["/1", "/2", "/3"].map(|node| Claim::new("/s", node, Share::Permit));
        let valid: Vec<(u64, &Claim)> = (1..).zip(&claims).collect();
        let czxid_of = |node: &str| node[1..].parse().ok();
        assert!(limits.check(&valid, czxid_of).is_err());
        assert!(limits.check(&valid[..2], czxid_of).is_ok());
    }
}
