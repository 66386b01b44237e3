//! Results of a [`World`], and the checks of the session's contract.

use super::*;

impl<P: Peer> World<P> {
    pub(crate) fn reply(&self, n: u32) -> Option<&Result<Reply, Failure>> {
        self.answers.get(&n)
    }

    pub(crate) fn is_ok(&self, n: u32) -> bool {
        matches!(self.reply(n), Some(Ok(_)))
    }

    /// Returns whether the reply confirms that the watch with this number is set. `exists` sets a
    /// watch on a missing node, too.
    pub(crate) fn is_set(&self, n: u32) -> bool {
        let absent = ErrorKind::Server(ErrorCode::NO_NODE);
        let is_exists = self.exists.contains(&n);
        match self.reply(n) {
            Some(Err((kind, _))) => is_exists && *kind == absent,
            answer => answer.is_some(),
        }
    }

    pub(crate) fn failure(&self, n: u32) -> &Failure {
        match self.reply(n) {
            Some(Err(failure)) => failure,
            other => panic!("request {n} did not fail: {other:?}"),
        }
    }

    pub(crate) fn outcome(&self, n: u32) -> Outcome {
        self.failure(n).1
    }

    pub(crate) fn fired(&self, n: u32) -> Option<&Result<WatchEvent, SessionEnd>> {
        self.fired.get(&n)
    }

    /// Returns the zxid of the event that has fired a watch.
    pub(crate) fn event_zxid(&self, n: u32) -> Option<Zxid> {
        self.event_zxids[&n]
    }

    /// Removes and returns the notices that a stream received since the last call.
    pub(crate) fn told(&mut self, n: u32) -> Vec<Result<WatchStreamItem, SessionEnd>> {
        std::mem::take(self.streams.entry(n).or_default())
    }

    pub(crate) fn events(&self) -> Vec<SessionEvent> {
        let event = |(_, seen): &(Duration, Seen)| match seen {
            Seen::Event(event) => Some(event.clone()),
            _ => None,
        };
        self.log.iter().filter_map(event).collect()
    }

    pub(crate) fn standings(&self) -> Vec<(Duration, LeaseState)> {
        let lease_state = |(at, seen): &(Duration, Seen)| match seen {
            Seen::LeaseState(lease_state) => Some((*at, *lease_state)),
            _ => None,
        };
        self.log.iter().filter_map(lease_state).collect()
    }

    /// Returns the time at which the current lease ends.
    pub(crate) fn lease(&self) -> Option<Duration> {
        let (_, until) = self.session.lease(self.instant())?;
        Some(until - self.base)
    }

    /// Returns the waiting requests that set one-shot watches: their zxid, and the paths of their data,
    /// exists and child watches, as in `/a /b | | /c`.
    pub(crate) fn rearmed(&self) -> Vec<(Zxid, String)> {
        let frames = self.frames.iter().filter(|frame| frame.op == OpCode::SetWatches);
        let text = |frame: &Frame| {
            let chunk: SetWatches<'_> = frame.read();
            let lists = [chunk.data, chunk.exist, chunk.child].map(|paths| paths.join(" "));
            (chunk.relative_zxid, lists.join(" | "))
        };
        frames.map(text).collect()
    }

    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.session.end_reason()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.session.stats(self.instant())
    }

    /// Returns the reason for which the last connection ended.
    pub(crate) fn cause(&self) -> DisconnectReason {
        self.session.last_disconnect().unwrap()
    }

    /// Checks the rules that hold at any time. Two more rules are checked at every output: each
    /// request gets one answer, and after the end only a `LeaseState` follows.
    pub(crate) fn check_contract(&mut self) {
        for (n, number) in &self.asked {
            let answered = self.answers.contains_key(n);
            let waiting = !self.terminal || number.abandoned.get();
            assert!(answered || waiting, "{n} got no answer");
        }
        assert_eq!(self.terminal, self.session.end_reason().is_some());
        assert_eq!(self.session.poll_timeout().is_none(), self.terminal);
        let lost = self.session.lease_state().term;
        assert_eq!(
            usize::try_from(lost).unwrap() + usize::from(self.terminal),
            self.standings().len(),
            "one output for each change of the lease_state"
        );
    }

    /// Checks that every request is answered, except abandoned ones.
    pub(crate) fn check_all_answered(&self) {
        for (n, number) in &self.asked {
            let answered = self.answers.contains_key(n);
            assert!(answered || number.abandoned.get(), "{n} got no answer");
        }
    }

    /// Ends the test of this world, which is then checked. See its [`Drop`].
    pub(crate) fn finish(self) {}
}

/// At the end of a test, aborts the session if it has not ended, and checks that every caller has an
/// answer.
impl<P: Peer> Drop for World<P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.settle();
        self.check_contract();
        self.session.abort();
        self.settle();
        self.check_contract();
    }
}
