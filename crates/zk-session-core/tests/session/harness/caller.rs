//! Calls of the client in a [`World`]: requests, watches, clean-up, the lease and the close.

use super::*;

impl<P: Peer> World<P> {
    pub(crate) fn number(&mut self) -> Number {
        self.next += 1;
        Number { n: self.next, abandoned: Rc::default() }
    }

    /// Submits a request. The returned number identifies its answer and its watch.
    pub(crate) fn submit<R: Request>(&mut self, request: &R, watch: Option<WatchKind>) -> u32 {
        self.try_submit(request, watch).unwrap()
    }

    pub(crate) fn try_submit<R: Request>(
        &mut self,
        request: &R,
        watch: Option<WatchKind>,
    ) -> Result<u32, Failure> {
        let to = self.number();
        let watch = watch.map(|kind| (kind, to.clone()));
        let result = self.session.submit(self.instant(), request, to.clone(), watch);
        self.admitted(to, result.map(drop))
    }

    pub(crate) fn admitted(
        &mut self,
        to: Number,
        result: Result<(), Failure>,
    ) -> Result<u32, Failure> {
        let n = to.n;
        if result.is_ok() {
            self.asked.insert(n, to);
        }
        self.settle();
        result.map(|()| n)
    }

    /// Submits as many reads as the session accepts.
    pub(crate) fn submit_most(&mut self) {
        for _ in 0..REQUESTS_MAX {
            let (to, now) = (self.number(), self.instant());
            self.asked.insert(to.n, to.clone());
            self.session.submit(now, &get("/a", false), to, None).unwrap();
        }
    }

    pub(crate) fn create(&mut self, path: &str) -> u32 {
        self.submit(&create(path), None)
    }

    pub(crate) fn delete(&mut self, path: &str) -> u32 {
        self.submit(&Delete { path: path.into(), version: -1 }, None)
    }

    pub(crate) fn set(&mut self, path: &str) -> u32 {
        self.submit(&SetData { path: path.into(), data: None, version: -1 }, None)
    }

    pub(crate) fn sync(&mut self) -> u32 {
        self.submit(&Sync { path: "/".into() }, None)
    }

    pub(crate) fn prove(&mut self) -> u32 {
        self.submit(&Multi::new(&[]), None)
    }

    /// Proves the lease: a quorum agrees to an empty transaction.
    pub(crate) fn renew(&mut self) {
        self.prove();
        self.serve_next(OpCode::Multi);
    }

    pub(crate) fn get(&mut self, path: &str) -> u32 {
        self.submit(&get(path, false), None)
    }

    pub(crate) fn watch(&mut self, kind: WatchKind, path: &str) -> u32 {
        let (watch, kind_of) = (true, Some(kind));
        let path = path.into();
        match kind {
            WatchKind::Data => self.submit(&GetData { path, watch }, kind_of),
            WatchKind::Exists => {
                self.exists.insert(self.next + 1);
                self.submit(&Exists { path, watch }, kind_of)
            }
            WatchKind::Children => self.submit(&GetChildren2 { path, watch }, kind_of),
        }
    }

    /// Sets a watch, and lets the server answer the request.
    pub(crate) fn set_watch(&mut self, kind: WatchKind, path: &str) -> u32 {
        let n = self.watch(kind, path);
        let frame = self.frames.pop_back().unwrap();
        self.serve(&frame);
        n
    }

    /// Sets a persistent watch, recursive or not.
    pub(crate) fn stream(&mut self, mode: AddWatchMode, path: &str) -> u32 {
        let to = self.number();
        let result = self.session.add_watch(self.instant(), path, mode, to.clone(), to.clone());
        self.admitted(to, result.map(|_| ())).unwrap()
    }

    /// Drops the watch with this number.
    pub(crate) fn drop_watch(&mut self, n: u32, path: &str) {
        self.abandon(n);
        self.session.prune_watches(self.instant(), path);
        self.settle();
    }

    pub(crate) fn delete_guaranteed(&mut self, path: &str) -> u32 {
        self.try_delete_guaranteed(path).unwrap()
    }

    pub(crate) fn try_delete_guaranteed(&mut self, path: &str) -> Result<u32, Failure> {
        let to = self.number();
        let result = self.session.delete_guaranteed(self.instant(), path, Some(to.clone().into()));
        self.admitted(to, result)
    }

    pub(crate) fn delete_marked(&mut self, path: &str) -> u32 {
        let (to, now) = (self.number(), self.instant());
        let result = self.session.delete_marked_guaranteed(now, path, Some(to.clone().into()));
        self.admitted(to, result).unwrap()
    }

    /// Sets watches with one request, from [`SINCE`] on. Returns its number and those of the watches.
    pub(crate) fn watch_nodes(
        &mut self,
        nodes: &[(&str, WatchKind)],
    ) -> Result<(u32, Vec<u32>), Failure> {
        let numbers: Vec<Number> = nodes.iter().map(|_| self.number()).collect();
        let watches = nodes.iter().zip(&numbers);
        let watches = watches.map(|((path, kind), to)| (*path, *kind, to.clone())).collect();
        let (to, now) = (self.number(), self.instant());
        self.set_at_once.extend(numbers.iter().map(|watch| watch.n));
        let result = self.session.watch_nodes(now, SINCE, watches, to.clone());
        let n = self.admitted(to, result.map(drop))?;
        Ok((n, numbers.into_iter().map(|watch| watch.n).collect()))
    }

    pub(crate) fn sweep(&mut self, parent: &str, prefix: &str) {
        self.session.delete_protected_guaranteed(self.instant(), parent, prefix).unwrap();
        self.settle();
    }

    pub(crate) fn auth(&mut self, scheme: &str) -> u32 {
        self.try_auth(scheme, "user:secret".into()).unwrap()
    }

    pub(crate) fn try_auth(&mut self, scheme: &str, auth: Bytes) -> Result<u32, Failure> {
        let to = self.number();
        let result = self.session.add_credential(self.instant(), scheme, auth, to.clone());
        self.admitted(to, result)
    }

    pub(crate) fn claim(&mut self) {
        self.session.claim_lease();
        self.tick();
    }

    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.session.close(self.instant());
        self.settle();
    }

    /// Marks this request or watch as abandoned by its caller.
    pub(crate) fn abandon(&self, n: u32) {
        self.asked[&n].abandoned.set(true);
    }

    pub(crate) fn abandon_if_asked(&self, n: u32) {
        if self.asked.contains_key(&n) {
            self.abandon(n);
        }
    }
}
