//! The model: what a server does with the nodes of one group, one operation after the other.

use crate::record::{Change, Ended, Entry, Kind, Node, Rejection, Write};

/// State of the nodes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    nodes: Vec<(String, Known)>,
    /// The newest zxid of a write whose reply has it. Writes have growing zxids.
    newest: i64,
}

/// A node that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    czxid: Stamp,
    mzxid: Stamp,
    version: i32,
    data: u64,
}

/// A zxid. That of a write with an unknown outcome shows up with a later reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stamp {
    At(i64),
    After(i64),
}

impl Stamp {
    /// Returns whether a reply shows this zxid, which is known from then on.
    fn shows(&mut self, seen: i64) -> bool {
        let is_it = match *self {
            Self::At(zxid) => zxid == seen,
            Self::After(zxid) => zxid < seen,
        };
        *self = Self::At(seen);
        is_it
    }

    /// Returns the first zxid that it can be.
    fn least(self) -> i64 {
        match self {
            Self::At(zxid) => zxid,
            Self::After(zxid) => zxid + 1,
        }
    }
}

impl State {
    /// Returns the state after an operation, or `None` if the operation has another outcome in this state.
    ///
    /// An operation with an unknown outcome is applied as far as the state allows.
    pub(crate) fn after(&self, entry: &Entry) -> Option<Self> {
        let mut next = self.clone();
        match (&entry.kind, entry.ended()) {
            (Kind::Read { path, .. }, Ended::Read(seen)) => {
                next.shows(path, seen.as_ref()).then_some(next)
            }
            (Kind::Write(writes), Ended::Applied(seen)) => {
                let zxid = entry.transaction();
                if zxid.is_some_and(|zxid| zxid <= self.newest) {
                    return None;
                }
                for (write, seen) in writes.iter().zip(seen) {
                    next.apply(write).ok()?;
                    if let Some(zxid) = zxid {
                        next.stamp(&write.path, zxid);
                    }
                    if seen.is_some() && !next.shows(&write.path, seen.as_ref()) {
                        return None;
                    }
                }
                next.newest = zxid.unwrap_or(self.newest);
                Some(next)
            }
            (Kind::Write(writes), Ended::Rejected(index, rejection)) => {
                let rejected = writes.get(*index)?;
                for write in &writes[..*index] {
                    next.apply(write).ok()?;
                }
                (next.apply(rejected) == Err(*rejection)).then(|| self.clone())
            }
            (Kind::Write(writes), Ended::Unknown) => {
                let is_applied = writes.iter().all(|write| next.apply(write).is_ok());
                is_applied.then_some(next)
            }
            _ => Some(next),
        }
    }

    /// Returns whether an operation shows a node that this state has left behind, so that the operation fits
    /// no later state either.
    pub(crate) fn has_passed(&self, entry: &Entry) -> bool {
        if entry.transaction().is_some_and(|zxid| zxid <= self.newest) {
            return true;
        }
        let is_write = matches!(entry.kind, Kind::Write(_));
        entry.seen().into_iter().any(|(path, seen)| {
            let Some(seen) = seen else { return false };
            let known = self.nodes.iter().find(|(own, _)| own == path);
            match known {
                None => seen.czxid <= self.newest,
                Some((_, known)) => {
                    let is_older = seen.version < known.version + i32::from(is_write);
                    seen.czxid < known.czxid.least()
                        || known.czxid == Stamp::At(seen.czxid) && is_older
                }
            }
        })
    }

    fn apply(&mut self, write: &Write) -> Result<(), Rejection> {
        let place = self.nodes.binary_search_by(|(path, _)| path.cmp(&write.path));
        let fits = |known: &Known, version: Option<i32>| {
            let is_it = version.is_none_or(|version| version == known.version);
            if is_it { Ok(()) } else { Err(Rejection::BadVersion) }
        };
        match (write.change, place) {
            (Change::Create(_), Ok(_)) => return Err(Rejection::NodeExists),
            (_, Err(_)) if !matches!(write.change, Change::Create(_)) => {
                return Err(Rejection::NoNode);
            }
            (Change::Create(data), Err(place)) => {
                let stamp = Stamp::After(self.newest);
                let known = Known { czxid: stamp, mzxid: stamp, version: 0, data };
                self.nodes.insert(place, (write.path.clone(), known));
            }
            (Change::Set(data, version), Ok(place)) => {
                let newest = self.newest;
                let known = &mut self.nodes[place].1;
                fits(known, version)?;
                let mzxid = Stamp::After(newest.max(known.mzxid.least()));
                *known = Known { mzxid, version: known.version.wrapping_add(1), data, ..*known };
            }
            (Change::Delete(version), Ok(place)) => {
                fits(&self.nodes[place].1, version)?;
                self.nodes.remove(place);
            }
            (_, Err(_)) => {}
        }
        Ok(())
    }

    /// Sets the zxid of the last write of a node.
    fn stamp(&mut self, path: &str, zxid: i64) {
        let Some((_, known)) = self.nodes.iter_mut().find(|(own, _)| own == path) else { return };
        known.mzxid = Stamp::At(zxid);
        if known.version == 0 {
            known.czxid = Stamp::At(zxid);
        }
    }

    /// Returns whether a reply shows the node of this state. Its zxids become known.
    fn shows(&mut self, path: &str, seen: Option<&Node>) -> bool {
        let known = self.nodes.iter_mut().find(|(own, _)| own == path);
        match (known, seen) {
            (None, None) => true,
            (Some((_, known)), Some(seen)) => {
                let is_stamped = known.czxid.shows(seen.czxid) & known.mzxid.shows(seen.mzxid);
                is_stamped
                    && known.version == seen.version
                    && (seen.version > 0 || seen.czxid == seen.mzxid)
                    && seen.data.is_none_or(|data| data == known.data)
            }
            _ => false,
        }
    }
}
