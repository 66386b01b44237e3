//! Faulty networks: unknown names, failed attempts, and streams that carry a few bytes at a time.

use super::*;
use zk_session::RetryOn;

/// A network that counts its streams. The name of a host decides how the host behaves.
#[derive(Clone)]
struct Named {
    ensemble: Ensemble,
    /// Held by every stream and attempt that exists.
    alive: Arc<()>,
    most_alive: Arc<Mutex<usize>>,
    tried: Arc<Mutex<Vec<String>>>,
    /// How many bytes a stream buffers on the way to the server.
    room: usize,
    /// Whether its bytes reach the server unchanged, unlike with TLS or a proxy.
    is_plain: bool,
}

impl Named {
    fn new(ensemble: &Ensemble) -> Self {
        Self {
            ensemble: ensemble.clone(),
            alive: Arc::default(),
            most_alive: Arc::default(),
            tried: Arc::default(),
            room: 64 * 1024,
            is_plain: true,
        }
    }

    async fn connect_with(&self, config: Config) -> Client {
        config.connector(self.clone()).connect().await.unwrap()
    }

    /// Connects to a server that serves.
    async fn client(&self) -> Client {
        self.connect_with(Config::new("good").unwrap().session_timeout(T).seed(3)).await
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.alive)
    }
}

impl Connector for Named {
    type Stream = Recorded;

    fn is_plain(&self, _host: &Host) -> bool {
        self.is_plain
    }

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Recorded>> + Send + 'static {
        let (this, name) = (self.clone(), host.name().to_owned());
        self.tried.lock().unwrap().push(name.clone());
        async move {
            let Self { ensemble, alive, most_alive, room, .. } = this;
            let ensemble_state = Arc::clone(&ensemble.state);
            {
                let mut most = most_alive.lock().unwrap();
                *most = (*most).max(Arc::strong_count(&alive));
            }
            let kind = name.split('-').next().unwrap();
            match kind {
                "unknown" => return Err(io::ErrorKind::NotFound.into()),
                "refuses" => return Err(io::ErrorKind::ConnectionRefused.into()),
                "resets" => return Err(io::ErrorKind::ConnectionReset.into()),
                "hangs" => std::future::pending::<()>().await,
                _ => {}
            }
            let (client, server) = tokio::io::duplex(room);
            match kind {
                "silent" => drop(tokio::spawn(async move {
                    let _server = server;
                    std::future::pending::<()>().await;
                })),
                "closes" => drop(server),
                "tls" => drop(tokio::spawn(answer_with(server, &[0x15, 3, 3, 0, 2, 2, 10]))),
                "quiet_tls" => drop(tokio::spawn(close_unless_tls(server))),
                "both" => drop(tokio::spawn(close_unless_tls_or_word(server))),
                "http" => drop(tokio::spawn(answer_with(server, b"HTTP/1.1 400 Bad Request\r\n"))),
                _ => {
                    ensemble.state().connections += 1;
                    let connection = ensemble.state().connections;
                    tokio::spawn(ensemble.serve(server, connection));
                }
            }
            let state = ensemble_state;
            Ok(Recorded { stream: client, state, peer: None, _alive: Some(alive) })
        }
    }
}

/// Waits for the first bytes, answers them and closes the connection.
async fn answer_with(mut server: DuplexStream, answer: &'static [u8]) {
    let mut first = [0; 4];
    server.read_exact(&mut first).await.unwrap();
    server.write_all(answer).await.unwrap();
}

/// Behaves like a server that is not ready, on a port for plaintext and TLS.
async fn close_unless_tls_or_word(mut server: DuplexStream) {
    let mut first = [0; 4];
    server.read_exact(&mut first).await.unwrap();
    if first == *b"srvr" {
        let answer = b"This ZooKeeper instance is not currently serving requests\n";
        server.write_all(answer).await.unwrap();
    } else if first[0] == 0x16 {
        server.write_all(&[0x15, 3, 3, 0, 2, 2, 40]).await.unwrap();
    }
}

/// Behaves like Netty with TLS: it closes a connection without a reply if the first bytes are not
/// TLS.
async fn close_unless_tls(mut server: DuplexStream) {
    let mut first = [0; 5];
    server.read_exact(&mut first).await.unwrap();
    if first[0] == 0x16 {
        let mut hello = vec![0; usize::from(u16::from_be_bytes([first[3], first[4]]))];
        server.read_exact(&mut hello).await.unwrap();
        server.write_all(&[0x15, 3, 3, 0, 2, 2, 40]).await.unwrap();
    }
}

/// ZOOKEEPER-1576: one of the servers has an unknown name.
#[tokio::test(start_paused = true)]
async fn unknown_names_and_servers_of_other_protocols_are_skipped() {
    for seed in 0..10 {
        let config = Config::new("unknown-1,tls,unknown-2,http,good").unwrap().seed(seed);
        let client = Named::new(&Ensemble::new()).connect_with(config).await;
        assert!(client.exists("/n").await.unwrap().is_some());
        assert_eq!(client.stats().connected_to.unwrap().name(), "good");
    }
    let network = Named::new(&Ensemble::new());
    let config = Config::new("unknown").unwrap().connect_timeout(T);
    let error = config.connector(network).connect().await.unwrap_err();
    let cause = DisconnectReason::Unreachable(io::ErrorKind::NotFound);
    assert_eq!(*error.kind(), ErrorKind::NoSession(cause));
    assert!(error.to_string().contains("cannot resolve the name"), "{error}");
}

/// ZOOKEEPER-1174, -3112, -4736: each failed attempt closes its socket, for every kind of failure.
#[tokio::test(start_paused = true)]
async fn failed_attempts_leave_no_stream_open() {
    let network = Named::new(&Ensemble::new());
    let hosts = "unknown,refuses,hangs,silent,closes";
    let config = Config::new(hosts).unwrap().session_timeout(T).seed(3);
    let client = config.connector(network.clone()).open().unwrap();
    let tried = || network.tried.lock().unwrap().len();
    let many = async {
        while tried() < 200 {
            // reason: the clock is paused; this lets the attempts continue
            tokio::time::sleep(T).await;
        }
    };
    tokio::time::timeout(1000 * T, many).await.expect("it has stopped trying");
    let names: BTreeSet<String> = network.tried.lock().unwrap().iter().cloned().collect();
    assert_eq!(names.len(), 5, "{names:?}");
    // One of the test, one of the driver, and one of the current attempt.
    assert!(*network.most_alive.lock().unwrap() <= 3, "{:?}", network.most_alive);
    client.close().await;
    drop(client);
    tokio::task::yield_now().await;
    assert_eq!(network.alive(), 1, "with the session everything goes");
}

/// The stream carries a few bytes at a time, and splits frames.
#[tokio::test(start_paused = true)]
async fn operations_succeed_over_a_stream_with_a_tiny_buffer() {
    for room in [1, 3, 50] {
        let network = Named { room, ..Named::new(&Ensemble::new()) };
        let client = network.client().await;
        converse(&client, &network.ensemble).await;
        let data = vec![9; 2_000];
        let many: Vec<_> = (0..5).map(|_| client.set_data("/n", &data, None)).collect();
        for answer in many {
            answer.await.unwrap();
        }
        network.ensemble.state().script.data = data.clone().into();
        assert_eq!(client.get_data("/n").await.unwrap().data, data);
        let state = network.ensemble.state();
        let sets = state.seen.iter().filter(|(_, frame)| frame.op == OpCode::SetData);
        let is_whole = |frame: &Frame| frame.read::<SetData<'_>>().data.as_deref() == Some(&data);
        assert_eq!(sets.filter(|(_, frame)| is_whole(frame)).count(), 5);
        assert_eq!(state.connections, 1);
        assert_eq!(client.stats().unwritten_bytes, 0);
    }
}

/// The client has more to write than the driver gets at a time. The server receives all of it, in
/// order, and each caller gets the true outcome.
#[tokio::test(start_paused = true)]
async fn bulk_writes_arrive_in_order_with_true_outcomes() {
    let network = Named { room: 10_000, ..Named::new(&Ensemble::new()) };
    let client = network.client().await;
    let claim = client.claim_lease();
    claim.renew().await.unwrap();
    let term = claim.bind().unwrap();
    let data = vec![9; 50_000];
    let path = |n: usize| format!("/n/{n:03}");
    let make = |n| client.create(&path(n), &data, CreateMode::Persistent);
    let many: Vec<_> = (0..100).map(make).collect();
    assert!(client.stats().unwritten_bytes > 4_000_000);
    for answer in many {
        answer.await.unwrap();
    }
    assert!(claim.holds(term));
    let made: Vec<String> = {
        let state = network.ensemble.state();
        let creates = state.seen.iter().filter(|(_, frame)| frame.op == OpCode::Create2);
        creates.map(|(_, frame)| frame.path()).collect()
    };
    assert!(made.into_iter().eq((0..100).map(path)));

    // The connection is cut in the middle. The server has not applied the requests that it has not
    // received.
    let cut = |n: usize| client.create(&path(200 + n), &data, CreateMode::Persistent);
    let many: Vec<_> = (0..100).map(cut).collect();
    network.ensemble.until(|state| state.has_received(OpCode::Create2, "/n/210")).await;
    network.ensemble.cut();
    let mut untouched = 0;
    for (n, answer) in many.into_iter().enumerate() {
        let told = answer.await;
        let is_there = network.ensemble.state().has_received(OpCode::Create2, &path(200 + n));
        match told {
            Ok(_) => assert!(is_there),
            Err(error) if error.outcome() == Outcome::NotApplied => {
                untouched += 1;
                assert!(!is_there, "{n}");
            }
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown),
        }
    }
    assert!(untouched > 50, "{untouched}");
}

#[tokio::test(start_paused = true)]
async fn connect_fails_at_once_if_no_server_is_a_zookeeper_server() {
    for (hosts, says) in [
        ("tls", "the server speaks TLS on this port"),
        ("http", "the server speaks HTTP on this port"),
        ("tls-1,tls-2,tls-3", "the server speaks TLS on this port"),
        ("quiet_tls-1,quiet_tls-2", "the server speaks TLS on this port"),
    ] {
        let network = Named::new(&Ensemble::new());
        let began = now();
        let config = Config::new(hosts).unwrap();
        let error = config.connector(network.clone()).connect().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoSession(DisconnectReason::NotZooKeeper(_))));
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!((error.origin(), error.retry_on()), (ErrorOrigin::Peer, RetryOn::Never));
        assert!(now() - began < Duration::from_millis(200), "{:?}", now() - began);
        let tried = network.tried.lock().unwrap().len() / hosts.split(',').count();
        assert!(tried <= 3, "{tried} connections to each");
    }
}

#[tokio::test(start_paused = true)]
async fn server_behind_another_connector_is_not_probed_for_tls() {
    let network = Named { is_plain: false, ..Named::new(&Ensemble::new()) };
    let error = Config::new("quiet_tls").unwrap().connector(network).connect().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::ClosedByServer));
}

#[tokio::test]
async fn connect_over_tcp_recognizes_a_tls_port() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0; 1024];
            if stream.read(&mut first).await.unwrap() > 0 && first[0] == 0x16 {
                stream.write_all(&[0x15, 3, 3, 0, 2, 2, 40]).await.unwrap();
            }
        }
    };
    let error = tokio::select! {
        result = Config::new(&address).unwrap().connect() => result.unwrap_err(),
        () = serve => unreachable!("it serves for ever"),
    };
    assert!(error.to_string().contains("the server speaks TLS on this port"), "{error}");
}

/// The driver takes large writes in parts. The next part follows at once, not at the next timer.
#[tokio::test(start_paused = true)]
async fn parts_of_a_large_write_follow_each_other_at_once() {
    let network = Named { room: 1 << 20, ..Named::new(&Ensemble::new()) };
    let client = network.client().await;
    network.ensemble.state().unanswered.insert(OpCode::SetData.code());
    let began = now();
    let data = vec![9; 50_000];
    let _pending: Vec<_> = (0..4).map(|_| client.set_data("/n", &data, None)).collect();
    network.ensemble.until(|state| state.seen.len() == 4).await;
    assert_eq!(now(), began);
}

/// `client.portUnification`: the server may be waiting for its quorum.
#[tokio::test(start_paused = true)]
async fn connect_waits_for_server_with_port_unification() {
    let network = Named::new(&Ensemble::new());
    let began = now();
    let error = Config::new("both").unwrap().connector(network).connect().await.unwrap_err();
    assert_eq!(now() - began, Duration::from_secs(10), "the connect timeout");
    assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::ClosedByServer));
    assert_eq!(error.retry_on(), RetryOn::NewSession);
}

#[tokio::test(start_paused = true)]
async fn connect_stops_at_refused_timeout_if_all_servers_refuse() {
    let elapsed = async |hosts: &str, bound: Option<Duration>| {
        let config = Config::new(hosts).unwrap();
        let config = match bound {
            Some(bound) => config.refused_timeout(bound),
            None => config,
        };
        let began = now();
        let error = config.connector(Named::new(&Ensemble::new())).connect().await.unwrap_err();
        let cause = error.kind().clone();
        assert!(matches!(cause, ErrorKind::NoSession(DisconnectReason::Unreachable(_))), "{error}");
        now() - began
    };
    let second = Duration::from_secs(1);
    assert_eq!(elapsed("refuses-1,refuses-2", None).await, 10 * second, "the connect timeout");
    assert!(elapsed("refuses-1,refuses-2,unknown", Some(second)).await <= second);
    assert!(elapsed("refuses", Some(Duration::ZERO)).await < second / 100);
    assert_eq!(elapsed("refuses,hangs", Some(second)).await, 10 * second, "one may still come");
}

/// A server beyond its `maxClientCnxns` may be faster than the report that the connection is open.
#[tokio::test(start_paused = true)]
async fn reset_of_a_new_connection_is_a_close_by_the_server() {
    let config = Config::new("resets").unwrap().refused_timeout(Duration::ZERO);
    let began = now();
    let error = config.connector(Named::new(&Ensemble::new())).connect().await.unwrap_err();
    let closed = ErrorKind::NoSession(DisconnectReason::ClosedByServer);
    assert_eq!(*error.kind(), closed, "{error}");
    assert_eq!(now() - began, Duration::from_secs(10), "it may serve later");
}

/// An operating system repeats the last bytes of a closed connection for minutes. A request to take
/// the session over that arrives so late would take it back from another server.
#[tokio::test]
async fn connection_without_an_answer_is_reset() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(&silent.local_addr().unwrap().to_string()).unwrap();
    let _client = config.session_timeout(Duration::from_secs(1)).open().unwrap();
    let (mut stream, _) = silent.accept().await.unwrap();
    let mut first = [0; 4];
    stream.read_exact(&mut first).await.unwrap();
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}
