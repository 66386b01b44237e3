//! Watches: events, replies, new connections, and removals at the server.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::{
    AddWatch, AddWatchMode, Decode, ErrorCode, OpCode, RemoveWatches, ReplyHeader, SetWatches,
    WatcherEvent, Zxid, path,
};

use super::Session;
use crate::requests::{Recipient, Requests, WatchOf};
use crate::watches::{Fired, PendingWatch, Rearm, Step, WatchReply, Watcher, rearm_len};
use crate::{
    DisconnectReason, ErrorKind, Failure, Handles, Limit, Outcome, Output, ReplyTo, RequestId,
    WatchEvent, WatchKind, WatchStreamItem,
};

impl<H: Handles> Session<H> {
    /// Sets a persistent watch: on one node and the list of its children, or on a node and all its
    /// descendants. Once the reply has arrived, `stream` receives all events in order, and a
    /// [gap](WatchStreamItem::Gap) after each reconnect.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn add_watch(
        &mut self,
        now: Instant,
        path: &str,
        mode: AddWatchMode,
        to: impl Into<ReplyTo<H::Reply>>,
        stream: H::Stream,
    ) -> Result<RequestId, Failure> {
        let request = AddWatch { path: path.into(), mode };
        self.admit_watch(rearm_len(path))?; // longer than the request itself
        let watch = PendingWatch::new(path, Watcher::Stream(mode, stream));
        Ok(self.send_or_queue(now, &request, to.into(), Some(watch)))
    }

    /// Sets one-shot watches on nodes that should exist, in one request. The watches are registered
    /// at once, and set at the server when the reply arrives.
    ///
    /// A watch fires if its node does not exist when the server executes the request, or if the node
    /// was created or changed after the transaction `since`. Such an event has no zxid and precedes
    /// the reply. The server does not check that the session may read the node. It sends no event of
    /// a node that the session may not read (CVE-2024-23944).
    ///
    /// # Errors
    /// As [`submit`](Self::submit). No watch is set then.
    pub fn watch_nodes(
        &mut self,
        now: Instant,
        since: Zxid,
        watches: Vec<(&str, WatchKind, H::Watch)>,
        to: impl Into<ReplyTo<H::Reply>>,
    ) -> Result<RequestId, Failure> {
        if self.vocabulary.lacks(OpCode::SetWatches) {
            return Err((ErrorKind::Unsupported(OpCode::SetWatches), Outcome::NotApplied));
        }
        let mut request = SetWatches { relative_zxid: since, ..Default::default() };
        for (path, kind, _) in &watches {
            let list = match kind {
                WatchKind::Data | WatchKind::Exists => &mut request.data,
                WatchKind::Children => &mut request.child,
            };
            list.push((*path).into());
        }
        self.admit_watch(proto::request_frame_len(&request))?;
        if self.watches.len() + watches.len() > self.settings.max_watches {
            return Err((ErrorKind::LimitReached(Limit::Watches), Outcome::NotApplied));
        }
        let paths: Vec<&str> = watches.iter().map(|(path, ..)| *path).collect();
        let xid = self.is_connected().then(|| self.requests.next_xid());
        for (path, kind, handle) in watches {
            self.watches.register(path, kind, handle);
            self.watches.asked(path, since, xid, |xid| self.requests.is_in_flight(xid));
        }
        let id = self.send_or_queue(now, &request, to.into(), None);
        if self.is_connected() {
            // Before 3.9.0 the request replaces a persistent watch on the same node
            // (ZOOKEEPER-4466), so that one is set again.
            for chunk in self.watches.rearm_streams_on(&paths, self.identity.events_zxid()) {
                send_rearm(&mut self.requests, now, &chunk);
            }
        }
        Ok(id)
    }

    /// Drops the abandoned watches on this path. They are removed from the server a moment later,
    /// unless that has become unnecessary. Returns true if the [deadline](Self::poll_timeout) may
    /// have moved.
    pub fn prune_watches(&mut self, now: Instant, path: &str) -> bool {
        self.watches.prune(path);
        self.watches.schedule_removal(now)
    }

    pub(super) fn notification(
        &mut self,
        now: Instant,
        zxid: Zxid,
        body: &Bytes,
    ) -> Result<(), DisconnectReason> {
        let event = WatcherEvent::from_frame(body).map_err(DisconnectReason::ProtocolError)?;
        let WatcherEvent { event_type, path, .. } = event;
        let fired = self.watches.fire(event_type, &path);
        // A server that does not know the transaction sends -1.
        let known = Some(zxid).filter(|zxid| *zxid > Zxid::ZERO);
        self.deliver(fired, &WatchEvent { event_type, path: path.clone(), zxid: known });
        if let Some(parent) = path::parent(&path) {
            let fired = self.watches.fire_parent(event_type, parent, zxid);
            let event_type = proto::EventType::NODE_CHILDREN_CHANGED;
            let path = parent.to_owned();
            self.deliver(fired, &WatchEvent { event_type, path, zxid: known });
        }
        self.watches.schedule_removal(now);
        Ok(())
    }

    fn deliver(&mut self, fired: Fired<H::Watch, H::Stream>, event: &WatchEvent) {
        for to in fired.one_shots {
            self.outputs.push(Output::Watch { to, result: Ok(event.clone()) });
        }
        for to in fired.streams {
            let item = Ok(WatchStreamItem::Changed(event.clone()));
            self.outputs.push(Output::Stream { to, item });
        }
    }

    /// Registers a watch exactly between the frames before its reply and those behind it. An event
    /// behind the reply is for this watch.
    pub(super) fn watch_answered(&mut self, now: Instant, watch: WatchOf<H>, header: &ReplyHeader) {
        let is_exists = matches!(watch.watcher, Watcher::OneShot(WatchKind::Exists, _));
        let reply = match header.err {
            ErrorCode::OK => WatchReply::Found,
            ErrorCode::NO_NODE if is_exists => WatchReply::Absent,
            _ => WatchReply::Refused,
        };
        let path = Arc::clone(&watch.path);
        if self.watches.answered(watch, reply) {
            self.arm_one_shots(now, &path, header.zxid);
        }
        self.watches.schedule_removal(now);
    }

    /// Re-registers all watches on a new connection, before any request that could read the state
    /// behind a pending event (kazoo #218, go #83).
    pub(super) fn rearm_watches(&mut self, now: Instant) {
        for to in self.watches.reconnected() {
            self.outputs.push(Output::Stream { to, item: Ok(WatchStreamItem::Gap) });
        }
        let mut last = None;
        for chunk in self.watches.rearm() {
            last = Some(self.requests.next_xid());
            send_rearm(&mut self.requests, now, &chunk);
        }
        if let Some(xid) = last {
            self.watches.rearmed(xid);
        }
    }

    /// Sets the persistent watches again, because queued requests of [`watch_nodes`](Self::watch_nodes)
    /// may have replaced them.
    pub(super) fn rearm_streams(&mut self, now: Instant) {
        for chunk in self.watches.rearm_streams(self.identity.events_zxid()) {
            send_rearm(&mut self.requests, now, &chunk);
        }
    }

    fn arm_one_shots(&mut self, now: Instant, path: &str, relative_zxid: Zxid) {
        let mut last = None;
        for request in self.watches.rearm_one_shots(path, relative_zxid) {
            last = Some(self.requests.next_xid());
            self.requests.send(now, &request, Recipient::Rearm, None, None);
        }
        if last.is_some() {
            self.watches.asked(path, relative_zxid, last, |xid| self.requests.is_in_flight(xid));
        }
    }

    /// Removes watches that no caller uses from the server.
    pub(super) fn remove_watches(&mut self, now: Instant) {
        for (path, steps) in self.watches.next_removals(now) {
            for step in steps {
                self.carry_out(now, &path, &step);
            }
        }
    }

    fn carry_out(&mut self, now: Instant, path: &Arc<str>, step: &Step) {
        match step {
            // The server receives this before the removal, and has already sent all earlier events.
            // So no event is lost in between.
            Step::ArmOneShots => self.arm_one_shots(now, path, self.identity.events_zxid()),
            Step::ArmPersistent => {
                let mode = AddWatchMode::Persistent;
                let request = AddWatch { path: (&**path).into(), mode };
                self.requests.send(now, &request, Recipient::Rearm, None, None);
            }
            Step::Remove(watcher_type, _) => {
                let watcher_type = *watcher_type;
                let request = RemoveWatches { path: (&**path).into(), watcher_type };
                let recipient = Recipient::Removal(Arc::clone(path), watcher_type);
                self.requests.send(now, &request, recipient, None, None);
            }
        }
    }
}

fn send_rearm<H: Handles>(requests: &mut Requests<H>, now: Instant, chunk: &Rearm<'_>) {
    match chunk {
        Rearm::OneShots(chunk) => requests.send(now, chunk, Recipient::Rearm, None, None),
        Rearm::All(chunk) => requests.send(now, chunk, Recipient::Rearm, None, None),
    }
}
