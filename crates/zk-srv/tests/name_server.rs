//! Tests against a name server in this process, on 127.0.0.1.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use zk_session::{Config, CreateMode, DisconnectReason, ErrorKind, Host, SessionEvent};
use zk_srv::Srv;
use zk_testing::TestServer;

/// A name server. It answers over UDP and TCP.
#[derive(Clone)]
struct NameServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Priority, weight, port and target of the records.
    records: Vec<(u16, u16, u16, String)>,
    ttl: u32,
    code: u8,
    is_silent: bool,
    /// Answers over UDP do not fit.
    is_truncated: bool,
    /// A forged answer comes first, with another id.
    is_forged: bool,
    questions: Vec<&'static str>,
}

impl NameServer {
    async fn start() -> Self {
        // A port that is free for both.
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let server = Self { address: tcp.local_addr().unwrap(), state: Arc::default() };
        tokio::spawn(server.clone().serve_udp(udp));
        tokio::spawn(server.clone().serve_tcp(tcp));
        server
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    fn list(&self, records: &[(u16, u16, u16, &str)]) {
        let owned = |(priority, weight, port, target): &(u16, u16, u16, &str)| {
            (*priority, *weight, *port, (*target).to_owned())
        };
        self.set(|state| state.records = records.iter().map(owned).collect());
    }

    fn questions(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().questions.clone()
    }

    async fn serve_udp(self, socket: UdpSocket) {
        let mut packet = [0; 512];
        loop {
            let (len, client) = socket.recv_from(&mut packet).await.unwrap();
            let (answer, forged) = {
                let mut state = self.state.lock().unwrap();
                state.questions.push("udp");
                if state.is_silent {
                    continue;
                }
                let mut answer = state.answer(&packet[..len]);
                if state.is_truncated {
                    answer[2] |= 2;
                    answer.truncate(len);
                    answer[7] = 0;
                }
                (answer, state.is_forged)
            };
            if forged {
                let mut forged = answer.clone();
                forged[0] = !forged[0];
                let port = forged.len() - 9;
                forged[port] = !forged[port];
                socket.send_to(&forged, client).await.unwrap();
            }
            socket.send_to(&answer, client).await.unwrap();
        }
    }

    async fn serve_tcp(self, listener: TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut question).await.unwrap();
            let answer = {
                let mut state = self.state.lock().unwrap();
                state.questions.push("tcp");
                state.answer(&question)
            };
            stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    }
}

impl State {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut answer = question.to_vec();
        answer[2] |= 0x80;
        answer[3] = self.code;
        answer[7] = u8::try_from(self.records.len()).unwrap();
        for (priority, weight, port, target) in &self.records {
            answer.extend([0xc0, 12, 0, 33, 0, 1]);
            answer.extend(self.ttl.to_be_bytes());
            let mut name = Vec::new();
            for label in target.split('.').filter(|label| !label.is_empty()) {
                name.push(u8::try_from(label.len()).unwrap());
                name.extend(label.as_bytes());
            }
            name.push(0);
            answer.extend(u16::try_from(name.len() + 6).unwrap().to_be_bytes());
            for field in [priority, weight, port] {
                answer.extend(field.to_be_bytes());
            }
            answer.extend(name);
        }
        answer
    }
}

/// Returns the list of servers of `NAME` from these name servers.
fn srv<const N: usize>(servers: [&NameServer; N]) -> Srv {
    Srv::new(NAME).unwrap().name_servers(servers.map(|server| server.address))
}

const NAME: &str = "_zookeeper._tcp.example.test";

#[tokio::test]
async fn session_opens_at_a_server_of_the_records() {
    let (dns, server) = (NameServer::start().await, TestServer::start().await.unwrap());
    dns.list(&[(1, 0, server.addresses()[0].port(), "localhost")]);
    let (srv, fallback) = Srv::of(&format!("srv://{NAME}/app")).unwrap().unwrap();
    let config = Config::new(&fallback).unwrap().discover(srv.name_servers([dns.address]));
    let client = config.create_chroot().connect().await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(client.full_path("/n"), "/app/n");
}

/// The old server is gone for good, and the session keeps its node.
#[tokio::test]
async fn session_moves_to_the_server_of_a_changed_record() {
    let dns = NameServer::start().await;
    let server = TestServer::start_with(zk_testing::Settings::new().servers(2)).await.unwrap();
    let ports = [0, 1].map(|at| server.addresses()[at].port());
    dns.list(&[(0, 0, ports[0], "127.0.0.1")]);
    let config = Config::new(NAME).unwrap().session_timeout(Duration::from_secs(8));
    let client = config.discover(srv([&dns])).connect().await.unwrap();
    client.create("/n", b"", CreateMode::Ephemeral).await.unwrap();
    dns.list(&[(0, 0, ports[1], "127.0.0.1")]);
    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(zk_testing::Cut::Fin);
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    assert!(client.exists("/n").await.unwrap().is_some());
}

#[tokio::test]
async fn connect_reports_the_name_without_records() {
    let dns = NameServer::start().await;
    dns.set(|state| state.code = 3);
    let config = Config::new(NAME).unwrap().discover(srv([&dns]));
    let error = config.refused_timeout(Duration::ZERO).connect().await.unwrap_err();
    let ErrorKind::NoSession(DisconnectReason::NoServerList(failure)) = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(failure.to_string(), format!("{NAME}: there is no such name"));
}

#[tokio::test]
async fn servers_come_in_the_order_of_their_priorities() {
    let dns = NameServer::start().await;
    dns.list(&[(7, 1, 3, "c.test"), (1, 5, 1, "a.test"), (1, 5, 2, "b.test")]);
    let found = srv([&dns]).lookup().await.unwrap();
    let ranks: Vec<u16> = found.iter().map(Host::rank).collect();
    assert_eq!((found[2].to_string(), ranks), ("c.test:3".to_owned(), vec![0, 0, 1]));
}

#[tokio::test]
async fn answer_that_is_too_long_for_udp_comes_over_tcp() {
    let dns = NameServer::start().await;
    dns.list(&[(0, 0, 1, "a.test"); 60]);
    dns.set(|state| state.is_truncated = true);
    assert_eq!(srv([&dns]).lookup().await.unwrap().len(), 60);
    assert_eq!(dns.questions(), ["udp", "tcp"]);
}

#[tokio::test]
async fn answer_with_another_id_is_ignored() {
    let dns = NameServer::start().await;
    dns.list(&[(0, 0, 2181, "a")]);
    dns.set(|state| state.is_forged = true);
    assert_eq!(srv([&dns]).lookup().await.unwrap(), [Host::new("a", 2181)]);
}

/// Each row: the first name server, whether the second one is asked, and the error.
#[tokio::test]
async fn next_name_server_is_asked_unless_the_first_one_knows() {
    for (change, is_asked, says) in [
        ((|state| state.is_silent = true) as fn(&mut State), true, "did not answer"),
        (|state| state.code = 2, true, "failed with code 2"),
        (|state| state.records = vec![(0, 0, 0, ".".to_owned())], false, "there is no service"),
        (|state| state.code = 3, false, "there is no such name"),
        (|state| state.records.clear(), false, "there is no SRV record"),
    ] {
        let (first, second) = (NameServer::start().await, NameServer::start().await);
        second.list(&[(0, 0, 2181, "a")]);
        first.list(&[(0, 0, 2181, "b")]);
        first.set(change);
        let found = srv([&first, &second]).lookup().await;
        assert_eq!(found.is_ok(), is_asked, "{says}: {found:?}");
        assert_eq!(!second.questions().is_empty(), is_asked);
        let error = srv([&first]).lookup().await.unwrap_err();
        assert!(error.to_string().starts_with(NAME) && error.to_string().contains(says), "{error}");
        assert_eq!(error.kind() == io::ErrorKind::NotFound, !is_asked, "{error}");
    }
}

#[tokio::test]
async fn closed_port_of_a_name_server_is_an_error_at_once() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let lookup = Srv::new(NAME).unwrap().name_servers([address]).lookup();
    let error = tokio::time::timeout(Duration::from_secs(1), lookup).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
}

/// The questions of all sessions that share the list count.
#[tokio::test]
async fn name_is_asked_again_after_its_time_to_live() {
    let dns = NameServer::start().await;
    dns.list(&[(0, 0, 2181, "a")]);
    dns.set(|state| state.ttl = 60);
    let list = srv([&dns]);
    let (one, two) = tokio::join!(list.lookup(), list.clone().lookup());
    assert_eq!((one.unwrap(), dns.questions().len()), (two.unwrap(), 1));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(59)).await;
    tokio::time::resume();
    dns.set(|state| state.code = 3);
    list.lookup().await.unwrap();
    assert_eq!(dns.questions().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert!(list.lookup().await.is_err());
    assert!(list.lookup().await.is_err(), "an error is not kept");
    assert_eq!(dns.questions().len(), 3);
}

#[test]
fn connect_string_may_have_either_scheme() {
    for (text, fallback) in [
        ("srv://_zk._tcp.a.b", Some("_zk._tcp.a.b")),
        (" dns-srv://_zk._tcp.a.b/app", Some("_zk._tcp.a.b/app")),
        ("a:1,b:2/app", None),
    ] {
        let found = Srv::of(text).unwrap().map(|(_, fallback)| fallback);
        assert_eq!(found.as_deref(), fallback, "{text}");
        drop(zk_srv::config(text).unwrap());
    }
    for text in ["srv://", "srv:///app", "srv://a,b", "srv://a:2181", "srv://user@a", "srv://a//b"]
    {
        let error = zk_srv::config(text).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidConnectString(_)), "{text}: {error}");
    }
}
