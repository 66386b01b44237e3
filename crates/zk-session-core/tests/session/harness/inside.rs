//! Inner loop of a [`World`]: it logs the session's outputs, and carries bytes to the server and back.

use super::*;

impl<P: Peer> World<P> {
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let some = self.drain_outputs() | self.transmit();
            if !(some | self.act_next()) {
                self.session.check_invariants();
                return;
            }
        }
        panic!("the session and its server never come to rest");
    }

    pub(super) fn drain_outputs(&mut self) -> bool {
        let before = self.log.len();
        while let Some(output) = self.session.poll_output() {
            let after_the_end = self.terminal && !matches!(output, Output::LeaseState(_));
            assert!(!after_the_end, "{output:?} after the end");
            let seen = match output {
                Output::Connect(host) => {
                    self.wire = Wire::Asked;
                    Seen::Connect(host)
                }
                Output::Disconnect => {
                    self.wire = Wire::Down;
                    Seen::Disconnect
                }
                Output::Probe(host) => Seen::Probe(host),
                Output::ProbeTls(host) => Seen::ProbeTls(host),
                Output::Refused(cause) => Seen::Refused(cause),
                Output::Reply { to, result } => {
                    assert!(self.asked.contains_key(&to.n), "{to:?} was not admitted");
                    let before = self.answers.insert(to.n, result.clone());
                    assert_eq!(before, None, "{to:?} answered twice");
                    Seen::Reply(to.n, result)
                }
                Output::Watch { to, result } => {
                    if let Ok(event) = &result {
                        self.event_zxids.insert(to.n, event.zxid);
                    }
                    let result = result.map(without_zxid);
                    let before = self.fired.insert(to.n, result.clone());
                    assert_eq!(before, None, "{to:?} fired twice");
                    let is_set =
                        self.answers.contains_key(&to.n) || self.set_at_once.contains(&to.n);
                    assert!(is_set, "{to:?} fired unregistered");
                    Seen::Watch(to.n, result)
                }
                Output::Stream { to, item } => {
                    let item = item.map(|item| match item {
                        WatchStreamItem::Changed(event) => {
                            WatchStreamItem::Changed(without_zxid(event))
                        }
                        item => item,
                    });
                    assert!(self.answers.contains_key(&to.n), "{to:?} told unregistered");
                    let before = self.streams.entry(to.n).or_default();
                    assert!(!matches!(before.last(), Some(Err(_))), "{to:?} told after the end");
                    before.push(item.clone());
                    Seen::Stream(to.n, item)
                }
                Output::Event(event) => {
                    self.terminal = matches!(
                        event,
                        SessionEvent::Expired { .. }
                            | SessionEvent::AuthFailed { .. }
                            | SessionEvent::Closed { .. }
                            | SessionEvent::Detached { .. }
                    );
                    Seen::Event(event)
                }
                Output::LeaseState(lease_state) => Seen::LeaseState(lease_state),
            };
            self.log.push((self.now, seen));
        }
        self.log.len() > before
    }

    pub(super) fn transmit(&mut self) -> bool {
        self.session.poll_transmit(&mut self.outgoing);
        if self.wire != Wire::Open {
            self.outgoing.clear();
            return false;
        }
        let mut written = self.outgoing.split_to(self.outgoing.len().min(self.room));
        if written.is_empty() {
            return false;
        }
        self.session.handle_written(written.len());
        if self.room != usize::MAX {
            self.room -= written.len();
        }
        let breaks = written.len() >= self.to_server;
        written.truncate(self.to_server);
        self.arrive(&written);
        match breaks {
            true => self.used_up(),
            false if self.to_server != usize::MAX => self.to_server -= written.len(),
            false => {}
        }
        true
    }

    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        self.transmitted.extend_from_slice(bytes);
        self.arrived.extend_from_slice(bytes);
        while let Some(bytes) = split_frame(&mut self.arrived, 1 << 20).unwrap() {
            if !std::mem::replace(&mut self.greeted, true) {
                if matches!(self.servers, Servers::Serve | Servers::Greet) {
                    self.greet(&bytes);
                }
                continue;
            }
            let frame = Frame::parse(&bytes);
            self.seen.push((self.now, frame.clone()));
            self.frames.push_back(frame);
        }
    }

    pub(super) fn greet(&mut self, frame: &Bytes) {
        let mut out = BytesMut::new();
        let go_on = self.server.connect(self.instant(), frame, &mut out);
        self.receive(&out);
        if self.wire == Wire::Open && (!go_on || self.servers == Servers::Greet) {
            self.broken();
        }
    }

    /// Performs one action that the server takes by itself. Returns false if there is none.
    pub(super) fn act_next(&mut self) -> bool {
        match (self.wire, self.servers) {
            (Wire::Asked, Servers::Refuse) => {
                self.wire = Wire::Down;
                let cause = DisconnectReason::Unreachable(std::io::ErrorKind::ConnectionRefused);
                self.session.handle_disconnected(self.instant(), cause);
                true
            }
            (Wire::Asked, servers) if servers != Servers::Scripted => {
                self.opened();
                true
            }
            (Wire::Open, Servers::Close) => {
                self.broken();
                true
            }
            (Wire::Open, _) => self.serve_by_itself(),
            _ => false,
        }
    }

    pub(super) fn serve_by_itself(&mut self) -> bool {
        let serves = self.servers == Servers::Serve;
        let place = self.frames.iter().position(|frame| {
            let op = frame.op.code();
            !self.unanswered.contains(&op) && (serves || self.answered.contains(&op))
        });
        let Some(frame) = place.and_then(|place| self.frames.remove(place)) else {
            return false;
        };
        let mut out = BytesMut::new();
        let go_on = self.server.answer(self.instant(), &frame, &mut out);
        self.receive(&out);
        if !go_on {
            self.broken();
        }
        true
    }
}

/// Most tests expect events of any server. `event_zxid` has the zxids of one-shot watches.
fn without_zxid(event: WatchEvent) -> WatchEvent {
    WatchEvent { zxid: None, ..event }
}
