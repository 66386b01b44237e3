//! The events of a node and all below it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use zk_recipes::session::{
    Client, ErrorCode, EventType, Retry, Stat, WatchEvent, WatchStreamItem, Zxid,
};

use super::Watched;
use crate::at_once::read_each;
use crate::prelude::{Failure, Result, Session};
use crate::subtree::{TreeSize, sorted_paths};

/// The nodes that the printed lines lead to.
#[derive(Default)]
pub(super) struct SubtreeWatch {
    /// `None` before the first read.
    told: Option<BTreeMap<String, Told>>,
    size: TreeSize,
}

/// State of a node in the printed lines: the zxids that created it and set its data. They are `None`
/// if an event had no zxid, which servers before 3.9 do not send (ZOOKEEPER-4655).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    czxid: Option<Zxid>,
    mzxid: Option<Zxid>,
}

impl Told {
    fn of(stat: &Stat) -> Self {
        Self { czxid: Some(stat.czxid), mzxid: Some(stat.mzxid) }
    }
}

impl SubtreeWatch {
    /// Follows the events until the session ends.
    pub(super) async fn follow(
        &mut self,
        session: &Session,
        watched: &Watched<'_>,
    ) -> Result<Infallible> {
        let begun = watched.notes.session(session);
        // The watch comes before the read, so that no change falls between the two.
        let mut stream = begun
            .retry
            .run(|client| client.watch_recursive(watched.path))
            .await
            .map_err(|error| Failure::from(error).with_hint(ErrorCode::UNIMPLEMENTED, NEEDS))?;
        let now = self.read(&begun, watched.path).await?;
        watched.notes.begin();
        let session = &watched.notes.session(session);
        let retry = &session.retry;
        self.print_changes(now, watched, retry).await?;
        loop {
            match stream.next().await {
                Some(Ok(WatchStreamItem::Changed(event))) => {
                    watched.reaction.to(event.event_type, &event.path, retry).await?;
                    self.remember(event)?;
                }
                Some(Ok(WatchStreamItem::Gap | WatchStreamItem::Overflow { .. })) => {
                    let now = self.read(session, watched.path).await?;
                    self.print_changes(now, watched, retry).await?;
                }
                Some(Err(error)) => return Err(error.into()),
                // The stream ends after the error.
                None => return Err(Failure::other("the watch has ended")),
            }
        }
    }

    /// Reads the nodes. A root that does not exist has none.
    async fn read(&self, session: &Session, root: &str) -> Result<BTreeMap<String, Told>> {
        if self.told.is_some() {
            // This server may lag behind the one that was read before.
            session.retry.run(|client| client.sync(root)).await?;
        }
        let paths = match sorted_paths(session, root, &|_| false).await {
            Err(failure) if failure.is_no_node() => Vec::new(),
            // Nodes that this client may not list cause no events for it (CVE-2024-23944; before
            // 3.9.2 they did, and would appear as deleted after a lost connection).
            listed => listed?.0,
        };
        let mut nodes = BTreeMap::new();
        read_each(session, &paths, Client::exists, &mut |path, stat| {
            nodes.extend(stat.map(|stat| (path.to_owned(), Told::of(&stat))));
        })
        .await?;
        Ok(nodes)
    }

    fn remember(&mut self, event: WatchEvent) -> Result<()> {
        let told = self.told.get_or_insert_default();
        let (mzxid, len) = (event.zxid, event.path.len());
        if event.event_type == EventType::NODE_DELETED {
            if told.remove(&event.path).is_some() {
                self.size.remove_path(len);
            }
            return Ok(());
        }
        let czxid = match event.event_type {
            EventType::NODE_CREATED => mzxid,
            _ => told.get(&event.path).and_then(|before| before.czxid),
        };
        match told.insert(event.path, Told { czxid, mzxid }) {
            Some(_) => Ok(()),
            None => self.size.add_path(len),
        }
    }

    /// Tells what has changed since the last read and the events after it.
    async fn print_changes(
        &mut self,
        now: BTreeMap<String, Told>,
        watched: &Watched<'_>,
        retry: &Retry,
    ) -> Result<()> {
        if let Some(before) = &self.told {
            for (event, path) in changes(before, &now) {
                watched.reaction.to(event, path, retry).await?;
            }
        }
        self.size = TreeSize::default();
        now.keys().try_for_each(|path| self.size.add_path(path.len()))?;
        self.told = Some(now);
        Ok(())
    }
}

const NEEDS: &str = "--recursive needs ZooKeeper 3.6";

/// Returns the events that lead from `before` to `now`: deletions first, from the leaves up.
fn changes<'a>(
    before: &'a BTreeMap<String, Told>,
    now: &'a BTreeMap<String, Told>,
) -> Vec<(EventType, &'a str)> {
    let is_another = |path: &str, told: &Told| match now.get(path) {
        None => true,
        Some(now) => told.czxid.is_some() && told.czxid != now.czxid,
    };
    let deleted = before.iter().rev().filter(|(path, told)| is_another(path, told));
    let mut changes: Vec<_> =
        deleted.map(|(path, _)| (EventType::NODE_DELETED, path.as_str())).collect();
    for (path, told) in now {
        let event = match before.get(path) {
            None => EventType::NODE_CREATED,
            Some(before) if is_another(path, before) => EventType::NODE_CREATED,
            Some(before) if before.mzxid != told.mzxid => EventType::NODE_DATA_CHANGED,
            Some(_) => continue,
        };
        changes.push((event, path));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_lead_from_one_state_to_the_other() {
        let read = |czxid, mzxid| Told { czxid: Some(czxid), mzxid: Some(mzxid) };
        let map = |nodes: &[(&str, Told)]| {
            nodes.iter().map(|(path, told)| ((*path).to_owned(), *told)).collect()
        };
        let before: BTreeMap<String, Told> = map(&[
            ("/a", read(Zxid(1), Zxid(1))),
            ("/a/again", read(Zxid(2), Zxid(2))),
            ("/a/gone", read(Zxid(3), Zxid(3))),
            ("/a/gone/below", read(Zxid(4), Zxid(4))),
            ("/a/same", read(Zxid(5), Zxid(5))),
            ("/a/told", Told { czxid: None, mzxid: None }),
        ]);
        let now = map(&[
            ("/a", read(Zxid(1), Zxid(9))),
            ("/a/again", read(Zxid(8), Zxid(8))),
            ("/a/new", read(Zxid(10), Zxid(10))),
            ("/a/same", read(Zxid(5), Zxid(5))),
            ("/a/told", read(Zxid(6), Zxid(7))),
        ]);
        assert_eq!(
            changes(&before, &now),
            [
                (EventType::NODE_DELETED, "/a/gone/below"),
                (EventType::NODE_DELETED, "/a/gone"),
                (EventType::NODE_DELETED, "/a/again"),
                (EventType::NODE_DATA_CHANGED, "/a"),
                (EventType::NODE_CREATED, "/a/again"),
                (EventType::NODE_CREATED, "/a/new"),
                // It may have changed after the event.
                (EventType::NODE_DATA_CHANGED, "/a/told"),
            ]
        );
        assert_eq!(changes(&now, &now), []);
    }
}
