//! Watches of the session: events, replies, new connections, and removals at the server. The state
//! is in [`super::watches`].

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::{
    AddWatch, AddWatchMode, Decode, ErrorCode, RemoveWatches, ReplyHeader, WatcherEvent,
    WatcherType, path,
};

use super::deadlines::RequestId;
use super::handles::{Recipient, Waiter, WatchOf};
use super::watches::{Fired, PendingWatch, Rearm, Step, Verdict, Watcher, rearm_len};
use super::{Failure, Handles, Output, Session, WatchEvent, WatchKind, WatchStreamItem};
use crate::DisconnectReason;
use crate::limits::{REMOVAL_DELAY, REMOVALS_AT_ONCE};
use crate::planted::Planted;

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
        to: impl Into<Waiter<H::Reply>>,
        stream: H::Stream,
    ) -> Result<RequestId, Failure> {
        let request = AddWatch { path: path.into(), mode };
        self.admit(rearm_len(path), true)?; // longer than the request itself
        let watcher = Watcher::Stream(mode, stream);
        let watch =
            PendingWatch { path: path.into(), watcher, is_given_up: false, is_covered: false };
        Ok(self.send_or_queue(now, &request, to.into(), Some(watch)))
    }

    /// Drops the abandoned watches on this path. They are removed from the server a moment later,
    /// unless that has become unnecessary. Returns true if the [deadline](Self::poll_timeout) may
    /// have moved.
    pub fn prune_watches(&mut self, now: Instant, path: &str) -> bool {
        self.watches.prune(path);
        self.schedule_removals(now)
    }

    pub(super) fn notification(
        &mut self,
        now: Instant,
        zxid: i64,
        body: &Bytes,
    ) -> Result<(), DisconnectReason> {
        let event = WatcherEvent::from_frame(body).map_err(DisconnectReason::ProtocolError)?;
        let WatcherEvent { event_type, path, .. } = event;
        let fired = self.watches.fire(event_type, &path);
        self.tell(fired, &WatchEvent { event_type, path: path.clone() });
        if let Some(parent) = path::parent(&path) {
            let fired = self.watches.fire_parent(event_type, parent, zxid);
            let event_type = proto::EventType::NODE_CHILDREN_CHANGED;
            self.tell(fired, &WatchEvent { event_type, path: parent.to_owned() });
        }
        self.schedule_removals(now);
        Ok(())
    }

    fn tell(&mut self, fired: Fired<H::Watch, H::Stream>, event: &WatchEvent) {
        for to in fired.one_shots {
            self.outputs.push_back(Output::Watch { to, result: Ok(event.clone()) });
        }
        for to in fired.streams {
            let notice = Ok(WatchStreamItem::Changed(event.clone()));
            self.outputs.push_back(Output::Stream { to, notice });
        }
    }

    /// Registers a watch exactly between the frames before its reply and those behind it. An event
    /// behind the reply is for this watch.
    pub(super) fn watch_answered(&mut self, now: Instant, watch: WatchOf<H>, header: &ReplyHeader) {
        let is_exists = matches!(watch.watcher, Watcher::OneShot(WatchKind::Exists, _));
        let verdict = match header.err {
            ErrorCode::OK => Verdict::Found,
            ErrorCode::NO_NODE if is_exists && !Planted::AbsentNotWatched.is_on() => {
                Verdict::Absent
            }
            _ => Verdict::Refused,
        };
        let path = Arc::clone(&watch.path);
        if self.watches.answered(watch, verdict) {
            self.arm_one_shots(now, &path, header.zxid);
        }
        self.schedule_removals(now);
    }

    /// Re-registers all watches on a new connection, before any request that could read the state
    /// behind a pending event (kazoo #218, go #83).
    pub(super) fn send_rearming(&mut self, now: Instant) {
        if Planted::WatchNotRearmed.is_on() {
            return;
        }
        self.unwatch_at = None;
        let streams = self.watches.reconnected();
        let told = if Planted::GapNotTold.is_on() { 0 } else { streams.len() };
        for to in streams.into_iter().take(told) {
            self.outputs.push_back(Output::Stream { to, notice: Ok(WatchStreamItem::Gap) });
        }
        let watches = std::mem::replace(&mut self.watches, super::Watches::new());
        let since = match Planted::RearmFromNow.is_on() {
            true => i64::MAX,
            false => self.identity.last_zxid,
        };
        for chunk in watches.rearm(since) {
            match chunk {
                Rearm::OneShots(chunk) => self.transmit(now, &chunk, Recipient::Rearm, None),
                Rearm::All(chunk) => self.transmit(now, &chunk, Recipient::Rearm, None),
            }
        }
        self.watches = watches;
    }

    fn arm_one_shots(&mut self, now: Instant, path: &str, relative_zxid: i64) {
        let watches = std::mem::replace(&mut self.watches, super::Watches::new());
        for request in watches.rearm_one_shots(path, relative_zxid) {
            self.transmit(now, &request, Recipient::Rearm, None);
        }
        self.watches = watches;
    }

    pub(super) fn removal_answered(
        &mut self,
        now: Instant,
        path: &str,
        kind: WatcherType,
        code: ErrorCode,
    ) {
        self.watches.removal_answered(path, kind, code);
        self.schedule_removals(now);
    }

    fn schedule_removals(&mut self, now: Instant) -> bool {
        let is_new = self.watches.has_stale() && self.unwatch_at.is_none();
        if is_new {
            self.unwatch_at = Some(now + REMOVAL_DELAY);
        }
        is_new
    }

    /// Removes watches that no caller uses from the server, a part at a time. Their removal matters
    /// little, and other requests wait for the connection.
    pub(super) fn send_removals(&mut self, now: Instant) {
        self.unwatch_at = None;
        for _ in 0..REMOVALS_AT_ONCE {
            if self.closing.is_some() {
                return; // closeSession is the last request
            }
            let Some((path, steps)) = self.watches.next_stale() else {
                return;
            };
            for step in steps {
                self.carry_out(now, &path, &step);
            }
        }
        self.schedule_removals(now);
    }

    fn carry_out(&mut self, now: Instant, path: &Arc<str>, step: &Step) {
        match step {
            // The server receives this before the removal, and has already sent all earlier events.
            // So no event is lost in between.
            Step::ArmOneShots => self.arm_one_shots(now, path, self.identity.last_zxid),
            Step::ArmPersistent => {
                let mode = AddWatchMode::Persistent;
                let request = AddWatch { path: (&**path).into(), mode };
                self.transmit(now, &request, Recipient::Rearm, None);
            }
            Step::Remove(watcher_type, _) => {
                let watcher_type = *watcher_type;
                let request = RemoveWatches { path: (&**path).into(), watcher_type };
                self.transmit(
                    now,
                    &request,
                    Recipient::Removal(Arc::clone(path), watcher_type),
                    None,
                );
            }
        }
    }
}
