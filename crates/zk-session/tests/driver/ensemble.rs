//! Servers behind in-memory streams, which a test controls.

use super::*;

/// State of the servers of an [`Ensemble`].
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) script: Script,
    /// Every request that the servers received, and its connection.
    pub(crate) seen: Vec<(usize, Frame)>,
    /// Length of each write of the client.
    pub(crate) writes: Vec<usize>,
    pub(crate) connections: usize,
    /// Connections are refused.
    pub(crate) refuses: bool,
    /// Connections are neither accepted nor refused.
    pub(crate) hangs: bool,
    /// The next read of the client panics.
    pub(crate) panics: bool,
    pub(crate) unanswered: BTreeSet<i32>,
    pub(crate) refuses_auth: bool,
    /// After this many more bytes to the client, the server closes the connection.
    pub(crate) budget: usize,
}

impl State {
    /// Returns whether a server received a request with this operation and path.
    pub(crate) fn has_received(&self, op: OpCode, path: &str) -> bool {
        self.seen.iter().any(|(_, frame)| frame.op == op && frame.path() == path)
    }

    /// Returns whether a server received the request to close the session.
    pub(crate) fn is_closed(&self) -> bool {
        self.seen.iter().any(|(_, frame)| frame.op == OpCode::CloseSession)
    }
}

/// A server, and the network to it.
#[derive(Clone)]
pub(crate) struct Ensemble {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) changed: Arc<Notify>,
    pub(crate) cut: Arc<Notify>,
}

impl Ensemble {
    pub(crate) fn new() -> Self {
        let state = State {
            script: Script::new(),
            seen: Vec::new(),
            writes: Vec::new(),
            connections: 0,
            refuses: false,
            hangs: false,
            panics: false,
            unanswered: BTreeSet::new(),
            refuses_auth: false,
            budget: usize::MAX,
        };
        let state = Arc::new(Mutex::new(state));
        Self { state, changed: Arc::default(), cut: Arc::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn config(&self, connect_string: &str) -> Config {
        Config::new(connect_string).unwrap().session_timeout(T).seed(1)
    }

    pub(crate) async fn client(&self) -> Client {
        self.connect_with(self.config("a")).await
    }

    pub(crate) async fn connect_with(&self, config: Config) -> Client {
        config.connector(self.clone()).connect().await.unwrap()
    }

    /// Opens a session that a manager replaces when it ends.
    pub(crate) async fn sessions(&self) -> SessionManager {
        self.manage(self.config("a")).await
    }

    pub(crate) async fn manage(&self, config: Config) -> SessionManager {
        SessionManager::connect(config.connector(self.clone())).await.unwrap()
    }

    /// Ends the session: the servers reject it at its next connection.
    pub(crate) fn expire(&self) {
        self.state().script.expired = true;
        self.cut();
    }

    /// Returns the sessions that all connections asked for.
    pub(crate) fn asked(&self) -> Vec<SessionId> {
        self.state().script.connects.iter().map(|connect| connect.session_id).collect()
    }

    /// Returns how many requests with this operation the servers received.
    pub(crate) fn count(&self, op: OpCode) -> usize {
        self.ops().into_iter().filter(|seen| *seen == op).count()
    }

    pub(crate) fn ops(&self) -> Vec<OpCode> {
        self.state().seen.iter().map(|(_, frame)| frame.op).collect()
    }

    /// Closes the current connection.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Closes the current connection and waits for the next one.
    pub(crate) async fn cut_and_wait(&self, client: &Client) {
        let mut events = client.events();
        self.cut();
        assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
        assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    }

    /// Waits until the state of the servers meets the condition.
    pub(crate) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if condition(&self.state()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(T * 10, wait).await.expect("it never came to that");
    }

    pub(crate) async fn serve(self, stream: DuplexStream, connection: usize) {
        tokio::select! {
            () = self.cut.notified() => {}
            _ = self.clone().converse(stream, connection) => {}
        }
        self.changed.notify_waiters();
    }

    pub(crate) async fn converse(
        self,
        mut stream: DuplexStream,
        connection: usize,
    ) -> io::Result<()> {
        let (mut input, mut greeted) = (BytesMut::new(), false);
        loop {
            let mut output = BytesMut::new();
            let mut goes_on = true;
            while let Some(frame) = split_frame(&mut input, 1 << 20).unwrap() {
                let greeting = !std::mem::replace(&mut greeted, true);
                goes_on = match greeting {
                    true => self.state().script.connect(&frame, &mut output),
                    false => self.answer(connection, Frame::parse(&frame), &mut output),
                };
                if !goes_on {
                    break;
                }
            }
            self.write(&mut stream, &output).await?;
            self.changed.notify_waiters();
            if !goes_on || stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        }
    }

    pub(crate) fn answer(&self, connection: usize, frame: Frame, output: &mut BytesMut) -> bool {
        let mut state = self.state();
        state.seen.push((connection, frame.clone()));
        if frame.op == OpCode::Auth && state.refuses_auth {
            script::reply(output, frame.xid, Zxid::ZERO, ErrorCode::AUTH_FAILED, &());
            return false;
        }
        state.unanswered.contains(&frame.op.code()) || state.script.answer(&frame, output)
    }

    pub(crate) async fn write(&self, stream: &mut DuplexStream, output: &[u8]) -> io::Result<()> {
        let budget = self.state().budget;
        let whole = output.len() < budget;
        stream.write_all(&output[..output.len().min(budget)]).await?;
        if !whole {
            self.state().budget = usize::MAX;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if budget != usize::MAX {
            self.state().budget = budget - output.len();
        }
        Ok(())
    }
}

impl Connector for Ensemble {
    type Stream = Recorded;

    fn connect(&self, _host: &Host) -> impl Future<Output = io::Result<Recorded>> + Send + 'static {
        let this = self.clone();
        async move {
            this.state().connections += 1;
            this.changed.notify_waiters();
            let connection = {
                let state = this.state();
                match (state.hangs, state.refuses) {
                    (true, _) => None,
                    (false, true) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    (false, false) => Some(state.connections),
                }
            };
            let Some(connection) = connection else {
                return std::future::pending().await;
            };
            let (client, server) = tokio::io::duplex(64 * 1024);
            tokio::spawn(this.clone().serve(server, connection));
            Ok(Recorded { stream: client, state: this.state, peer: None, _alive: None })
        }
    }

    fn local_address(&self, _stream: &Recorded) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, 7]))
    }
}

/// A stream that records the length of each write.
pub(crate) struct Recorded {
    pub(crate) stream: DuplexStream,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) peer: Option<IpAddr>,
    /// Counts the streams that exist.
    pub(crate) _alive: Option<Arc<()>>,
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let panics = std::mem::take(&mut self.state.lock().unwrap().panics);
        assert!(!panics, "a stream that panics");
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = result {
            self.state.lock().unwrap().writes.push(len);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the paused clock tells how much virtual time has passed"
)]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
