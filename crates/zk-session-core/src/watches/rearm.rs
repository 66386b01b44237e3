//! Registration of many watches at once: of all watches at a new server, or of the persistent ones on
//! some nodes.

use std::sync::Arc;

use proto::{AddWatchMode, RequestHeader, SetWatches, SetWatches2, Zxid};

use super::at_server::AtServer;
use super::path_watches::{PathWatches, STREAM_MODES};
use super::{Armed, Watches, track};
use crate::{Handle, WatchKind};

/// Request that re-registers watches.
#[derive(Debug)]
pub(crate) enum Rearm<'a> {
    /// setWatches, supported by every server.
    OneShots(SetWatches<'a>),
    /// setWatches2, supported since 3.6.0 like the watches that need it. An older server closes the
    /// connection over it.
    All(SetWatches2<'a>),
}

/// Returns the length of the frame that re-registers a watch on this path and nothing else: header,
/// zxid, five lists, the path. It is longer than the request that sets the watch, so a watch may
/// have to be rejected although its request would fit.
pub(crate) fn rearm_len(path: &str) -> usize {
    RequestHeader::LEN + 8 + 5 * 4 + 4 + path.len()
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    /// Notes that a request is to set the one-shot watches on a path from this transaction on: the one
    /// with this xid, or the first one of the next connection.
    pub(crate) fn asked(
        &mut self,
        path: &str,
        since: Zxid,
        xid: Option<i32>,
        is_in_flight: impl Fn(i32) -> bool,
    ) {
        if let Some(watches) = self.paths.get_mut(path) {
            watches.at_server = watches.at_server.asked(since, xid, is_in_flight);
        }
    }

    /// Notes that the connection is lost, on which the session has received all events up to
    /// `events_zxid`. Watches that a request in flight was to set count from their own transaction: the
    /// server may not have watched their nodes.
    pub(crate) fn lost(&mut self, events_zxid: Zxid, is_in_flight: impl Fn(i32) -> bool) {
        for watches in self.paths.values_mut() {
            watches.at_server = watches.at_server.lost(events_zxid, &is_in_flight);
        }
    }

    /// Prepares the watches for a new connection. The server of the last one has forgotten all
    /// watches, and those in use are about to be set at the next. Returns the persistent watches,
    /// which missed the events in between (ZOOKEEPER-4698).
    pub(crate) fn reconnected(&mut self) -> Vec<S> {
        let mut streams = Vec::new();
        let counts = &mut self.counts;
        self.paths.retain(|_, watches| {
            track(counts, watches, PathWatches::prune);
            streams.extend(STREAM_MODES.iter().flat_map(|mode| watches.streams(*mode)).cloned());
            watches.armed = watches.wanted();
            (watches.asked, watches.unanswered) = (Armed::NOTHING, 0);
            !watches.is_over()
        });
        self.stale.clear();
        self.removal_at = None;
        streams
    }

    /// Returns the requests that re-register every watch on a new connection. Each is below the
    /// frame limit, for any number of watches, and has only watches that count from the same
    /// transaction: an earlier one would fire them without a change.
    ///
    /// The lists of one path are in the order of setWatches2. An old server that remembers one mode
    /// per path then ends with the mode that receives most events.
    pub(crate) fn rearm(&self) -> impl Iterator<Item = Rearm<'_>> {
        let missing = self.paths.iter().filter_map(|(path, watches)| match watches.at_server {
            AtServer::Missing { since } => Some((since, path, watches)),
            AtServer::Set | AtServer::Asked { .. } => None,
        });
        let mut missing: Vec<_> = missing.collect();
        missing.sort_by_key(|(since, ..)| *since);
        self.chunks(missing.into_iter())
    }

    /// Notes that the requests of [`rearm`](Self::rearm) were sent, the last one with this xid. They
    /// count as answered once that one is.
    pub(crate) fn rearmed(&mut self, xid: i32) {
        for watches in self.paths.values_mut() {
            if let AtServer::Missing { since } = watches.at_server {
                watches.at_server = AtServer::Asked { since, xid };
            }
        }
    }

    /// As [`rearm`](Self::rearm), for the nodes that have persistent watches, or on which such a watch
    /// is being set.
    pub(crate) fn rearm_streams(&self, relative_zxid: Zxid) -> impl Iterator<Item = Rearm<'_>> {
        let nodes = self.paths.iter().filter(|(_, watches)| has_streams(watches));
        self.chunks(nodes.map(move |(path, watches)| (relative_zxid, path, watches)))
    }

    /// As [`rearm_streams`](Self::rearm_streams), for those of these nodes.
    pub(crate) fn rearm_streams_on<'a>(
        &'a self,
        paths: &'a [&str],
        relative_zxid: Zxid,
    ) -> impl Iterator<Item = Rearm<'a>> {
        let nodes = paths.iter().filter_map(|path| self.paths.get_key_value(*path));
        let nodes = nodes.filter(|(_, watches)| has_streams(watches));
        self.chunks(nodes.map(move |(path, watches)| (relative_zxid, path, watches)))
    }

    /// Returns the requests that set the one-shot watches on one path, and fire them if the node
    /// changed after `relative_zxid`. There is one request, or several if the path is so long that
    /// its lists do not fit into one frame.
    pub(crate) fn rearm_one_shots(&self, path: &str, relative_zxid: Zxid) -> Vec<SetWatches<'_>> {
        let Some((path, watches)) = self.paths.get_key_value(path) else { return Vec::new() };
        let lists = lists(watches).into_iter().enumerate();
        let places: Vec<usize> =
            lists.filter(|(_, is_on)| *is_on).map(|(place, _)| place).collect();
        let at_once = if path.len() <= self.rearm_chunk_bytes { places.len() } else { 1 };
        let chunks = places.chunks(at_once.max(1)).map(|places| {
            let mut chunk = SetWatches2 { relative_zxid, ..SetWatches2::default() };
            places.iter().for_each(|place| put(&mut chunk, *place, path));
            one_shots(chunk)
        });
        chunks.collect()
    }

    /// Returns the requests that set the watches on these nodes, each from its transaction on.
    fn chunks<'a>(
        &self,
        nodes: impl Iterator<Item = (Zxid, &'a Arc<str>, &'a PathWatches<W, S>)>,
    ) -> impl Iterator<Item = Rearm<'a>>
    where
        W: 'a,
        S: 'a,
    {
        let places = nodes.flat_map(|(since, path, watches)| {
            let places = lists(watches).into_iter().enumerate();
            places.filter(|(_, is_on)| *is_on).map(move |(place, _)| (since, place, &**path))
        });
        let (mut places, bytes_max) = (places.peekable(), self.rearm_chunk_bytes);
        std::iter::from_fn(move || {
            let (relative_zxid, ..) = *places.peek()?;
            let mut chunk = SetWatches2 { relative_zxid, ..SetWatches2::default() };
            let mut bytes = 0;
            while let Some((_, place, path)) = places.next_if(|(since, _, path)| {
                *since == relative_zxid && (bytes == 0 || bytes + path.len() <= bytes_max)
            }) {
                put(&mut chunk, place, path);
                bytes += path.len() + 4; // the length prefix goes over the wire too
            }
            Some(lowest(chunk))
        })
    }
}

/// Returns the lists of setWatches2 that contain the path.
fn lists<W: Handle, S: Handle>(watches: &PathWatches<W, S>) -> [bool; 5] {
    let [data, exist, child] = [WatchKind::Data, WatchKind::Exists, WatchKind::Children];
    let [persistent, recursive] = STREAM_MODES.map(|mode| has_stream(watches, mode));
    [watches.has(data), watches.has(exist), watches.has(child), persistent, recursive]
}

/// Returns true if the server has any persistent watch, or the request for one is under way.
fn has_streams<W: Handle, S: Handle>(watches: &PathWatches<W, S>) -> bool {
    STREAM_MODES.iter().any(|mode| has_stream(watches, *mode))
}

/// Returns true if the server has a persistent watch of that mode, or the request for one is under way.
fn has_stream<W: Handle, S: Handle>(watches: &PathWatches<W, S>, mode: AddWatchMode) -> bool {
    !watches.streams(mode).is_empty() || watches.asked.has(Armed::by(mode))
}

fn put<'a>(chunk: &mut SetWatches2<'a>, place: usize, path: &'a str) {
    let lists = [
        &mut chunk.data,
        &mut chunk.exist,
        &mut chunk.child,
        &mut chunk.persistent,
        &mut chunk.persistent_recursive,
    ];
    if let Some(list) = lists.into_iter().nth(place) {
        list.push(path.into());
    }
}

fn lowest(chunk: SetWatches2<'_>) -> Rearm<'_> {
    if chunk.persistent.is_empty() && chunk.persistent_recursive.is_empty() {
        Rearm::OneShots(one_shots(chunk))
    } else {
        Rearm::All(chunk)
    }
}

fn one_shots(chunk: SetWatches2<'_>) -> SetWatches<'_> {
    let SetWatches2 { relative_zxid, data, exist, child, .. } = chunk;
    SetWatches { relative_zxid, data, exist, child }
}
