//! The rule for plain reads: a client never reads a state older than one that it has seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Change, Ended, Entry, Kind};

/// Returns the operations that break the rule. A client sends its operations one after the other, and their
/// replies come in this order.
pub(crate) fn violations(entries: &[Entry]) -> Vec<String> {
    let mut changes: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for entry in entries {
        for (path, node) in entry.seen() {
            changes.entry(path).or_default().extend(node.map(|node| node.mzxid));
        }
    }
    let mut views: BTreeMap<u32, i64> = BTreeMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        let view = views.entry(entry.client).or_default();
        if let Some(zxid) = entry.zxid.filter(|zxid| zxid < view) {
            violations.push(format!("{entry}: its zxid is {zxid:#x}, after {view:#x}"));
        }
        if let (Kind::Read { path, .. }, Ended::Read(node)) = (&entry.kind, entry.ended()) {
            let known = changes.get(&**path).and_then(|all| all.range(..=*view).next_back());
            match (node, known) {
                (Some(node), Some(known)) if node.mzxid < *known => {
                    violations.push(format!("{entry}: the client has seen {known:#x}"));
                }
                (None, Some(known)) if !may_be_deleted(entries, entry, path, *known) => {
                    violations.push(format!("{entry}: the client has seen {known:#x}, no delete"));
                }
                _ => {}
            }
        }
        let seen = entry.seen().into_iter().filter_map(|(_, node)| Some(node?.mzxid));
        *view = seen.chain(entry.zxid).fold(*view, i64::max);
    }
    violations
}

/// Returns whether a delete may have taken effect after the change with this zxid, and before a read.
fn may_be_deleted(entries: &[Entry], read: &Entry, path: &str, changed: i64) -> bool {
    let has_changed = |entry: &&Entry| {
        let mut seen = entry.seen().into_iter();
        let is_it =
            seen.any(|(own, node)| own == path && node.is_some_and(|it| it.mzxid == changed));
        is_it && matches!(entry.kind, Kind::Write(_))
    };
    let change = entries.iter().find(has_changed).map_or(0, |entry| entry.invoked.order);
    let last = read.returned.as_ref().map_or(u64::MAX, |(moment, _)| moment.order);
    entries.iter().any(|entry| {
        let Kind::Write(writes) = &entry.kind else { return false };
        let is_delete = |change: &Change| matches!(change, Change::Delete(_));
        let deletes = writes.iter().any(|write| write.path == path && is_delete(&write.change));
        let ends = match entry.returned.as_ref() {
            Some((moment, Ended::Applied(_))) => moment.order,
            Some((_, Ended::Rejected(..) | Ended::NotApplied)) => return false,
            _ => u64::MAX,
        };
        deletes && entry.invoked.order < last && ends > change
    })
}
