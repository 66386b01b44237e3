//! Lists of servers that are discovered, and the members of the ensemble.

use std::pin::pin;

use zk_session::limits::{DISCOVERY_PAUSE_MAX, DISCOVERY_TIMEOUT};
use zk_session::{ServerList, ServerListing, Transport};

use super::*;

/// What a list answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Servers(Vec<Host>),
    Fails,
    Hangs,
}

/// A list that a test controls.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<usize>>,
}

impl Listed {
    pub(crate) fn new(answer: Answer) -> Self {
        Self { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    pub(crate) fn servers(names: &[&str]) -> Self {
        Self::new(named(names))
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

impl ServerList for Listed {
    fn servers(&self) -> ServerListing {
        *self.asked.lock().unwrap() += 1;
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Answer::Servers(servers) => Ok(servers),
                Answer::Fails => Err(io::Error::other("the registry is down")),
                Answer::Hangs => std::future::pending().await,
            }
        })
    }
}

fn named(names: &[&str]) -> Answer {
    Answer::Servers(names.iter().map(|name| Host::new(*name, 2181)).collect())
}

/// Servers with names, of which some run.
#[derive(Clone)]
struct Named {
    ensemble: Ensemble,
    running: Arc<Mutex<Vec<String>>>,
    /// Names that connections were opened to.
    reached: Arc<Mutex<Vec<String>>>,
    uses_tls: bool,
}

impl Named {
    fn new(running: &[&str]) -> Self {
        let (ensemble, uses_tls) = (Ensemble::new(), false);
        let named = Self { ensemble, running: Arc::default(), reached: Arc::default(), uses_tls };
        named.run(running);
        named
    }

    /// Runs these servers alone.
    fn run(&self, running: &[&str]) {
        *self.running.lock().unwrap() = running.iter().map(ToString::to_string).collect();
        self.ensemble.cut();
    }

    fn reached(&self) -> Vec<String> {
        self.reached.lock().unwrap().clone()
    }

    fn config(&self, connect_string: &str) -> Config<Self> {
        self.ensemble.config(connect_string).connector(self.clone())
    }

    /// Sets the text of the ensemble's configuration.
    fn set_members(&self, text: &str) {
        self.ensemble.state().script.data = text.as_bytes().to_vec().into();
    }
}

impl Connector for Named {
    type Stream = Recorded;

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Recorded>> + Send + 'static {
        let runs = self.running.lock().unwrap().iter().any(|name| name == host.name());
        if runs {
            self.reached.lock().unwrap().push(host.name().to_owned());
        }
        let stream = self.ensemble.connect(host);
        async move {
            if !runs {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            stream.await
        }
    }

    fn uses_tls(&self, host: &Host) -> bool {
        match host.transport() {
            Transport::Any => self.uses_tls,
            transport => transport == Transport::Tls,
        }
    }
}

/// Waits until the session is connected for the first time, or again.
async fn until_reached(servers: &Named, count: usize) {
    servers.ensemble.until(|state| state.script.connects.len() >= count).await;
}

/// Lets virtual time pass.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // reason: nothing asks, or moves, before or after its time
}

#[tokio::test(start_paused = true)]
async fn connect_uses_servers_of_the_list() {
    let servers = Named::new(&["fallback", "found"]);
    let list = Listed::servers(&["found"]);
    let client = servers.config("fallback/app").discover(list.clone()).connect().await.unwrap();
    assert_eq!((servers.reached(), list.asked()), (vec!["found".to_owned()], 1));
    assert_eq!(client.full_path("/n"), "/app/n");
}

#[tokio::test(start_paused = true)]
async fn connect_falls_back_to_the_connect_string() {
    for answer in [Answer::Servers(Vec::new()), Answer::Fails, Answer::Hangs] {
        let servers = Named::new(&["fallback"]);
        let list = Listed::new(answer.clone());
        let began = now();
        let client = servers.config("fallback").discover(list).connect().await.unwrap();
        assert!(now() - began <= DISCOVERY_TIMEOUT + T / 10, "{answer:?}: {:?}", now() - began);
        assert_eq!(client.last_disconnect(), None, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn connect_reports_the_failure_of_the_list() {
    for (answer, says) in [
        (Answer::Fails, "the registry is down"),
        (Answer::Servers(Vec::new()), "the list of servers is empty"),
        (Answer::Hangs, "the list of servers did not answer in time"),
    ] {
        let servers = Named::new(&[]);
        let config = servers.config("fallback").discover(Listed::new(answer));
        let (timeout, began) = (Duration::from_secs(4), now());
        let error = config.connect_timeout(timeout).connect().await.unwrap_err();
        let ErrorKind::NoSession(DisconnectReason::NoServerList(failure)) = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(failure.to_string(), says);
        assert!(now() - began <= timeout, "the time for the list counts");
        assert_eq!(error.retry_on(), RetryOn::NewSession);
    }
}

#[tokio::test(start_paused = true)]
async fn session_moves_to_new_servers_before_it_expires() {
    let servers = Named::new(&["old-1", "old-2"]);
    let list = Listed::servers(&["old-1", "old-2"]);
    let client = servers.config("fallback").discover(list.clone()).connect().await.unwrap();
    let mut events = client.events();
    pass(T * 100).await;
    assert_eq!(list.asked(), 1, "nobody asks while a server serves");
    list.set(named(&["new"]));
    let began = now();
    servers.run(&["new"]);
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    assert!(now() - began < T / 2, "{:?}", now() - began);
    assert_eq!(servers.reached().last().map(String::as_str), Some("new"));
}

/// A list that hangs must not keep the session from the servers that it knows.
#[tokio::test(start_paused = true)]
async fn session_reconnects_while_the_list_hangs() {
    let servers = Named::new(&["a"]);
    let list = Listed::servers(&["a"]);
    let client = servers.config("a").discover(list.clone()).connect().await.unwrap();
    list.set(Answer::Hangs);
    servers.run(&[]);
    pass(T / 2).await;
    assert_eq!((list.asked(), client.is_connected()), (2, false));
    servers.run(&["a"]);
    until_reached(&servers, 2).await;
    client.get_data("/n").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn session_reports_why_it_found_no_newer_list() {
    let servers = Named::new(&["a"]);
    let list = Listed::servers(&["a"]);
    let client = servers.config("a").discover(list.clone()).connect().await.unwrap();
    let refused = DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused);
    list.set(Answer::Fails);
    servers.run(&[]);
    pass(T / 2).await;
    let cause = client.last_disconnect();
    assert!(matches!(cause, Some(DisconnectReason::NoServerList(_))), "{cause:?}");
    list.set(named(&["b"]));
    pass(T / 3).await;
    assert_eq!(client.last_disconnect(), Some(refused), "the list is newer, and no better");
}

#[tokio::test(start_paused = true)]
async fn list_is_asked_seldom_in_a_long_outage() {
    let (servers, list) = (Named::new(&[]), Listed::new(Answer::Fails));
    let _client = servers.config("a").discover(list.clone()).open().unwrap();
    let (outage, pause) = (Duration::from_secs(3600), DISCOVERY_PAUSE_MAX);
    pass(outage).await;
    let least = usize::try_from(outage.as_secs() / pause.as_secs()).unwrap();
    assert!((least..least + 8).contains(&list.asked()), "{} times", list.asked());
}

#[tokio::test(start_paused = true)]
async fn session_stays_with_tls_whatever_the_list_says() {
    let servers = Named { uses_tls: true, ..Named::new(&["a", "plain"]) };
    let plain = vec![Host::new("a", 1), Host::new("plain", 1).with_transport(Transport::Tcp)];
    let list = Listed::new(Answer::Servers(plain));
    let config = servers.config("a").discover(list.clone());
    let client = config.clone().connect().await.unwrap();
    servers.run(&["plain"]);
    pass(T * 3).await;
    assert!(list.asked() > 1 && !client.is_connected());
    let cause = client.last_disconnect().unwrap().to_string();
    assert!(cause.ends_with("the session uses TLS, and tcp://plain:1 does not"), "{cause}");
    config.open().unwrap();
    pass(T).await;
    assert_eq!(servers.reached(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn manager_asks_the_list_for_each_session() {
    let servers = Named::new(&["a", "b"]);
    let list = Listed::servers(&["a"]);
    let config = servers.config("fallback").discover(list.clone());
    let sessions = SessionManager::connect(config).await.unwrap();
    let first = sessions.client();
    list.set(named(&["b"]));
    servers.ensemble.expire();
    first.wait_for_end().await;
    servers.ensemble.state().script.expired = false;
    sessions.open_client().await.unwrap();
    assert_eq!(servers.reached().last().map(String::as_str), Some("b"));
    assert_eq!(list.asked(), 2);
}

/// `open` and `into_parts` do not wait, so their sessions begin with the connect string.
#[tokio::test(start_paused = true)]
async fn opened_session_moves_to_servers_of_the_list() {
    for is_in_parts in [false, true] {
        let servers = Named::new(&["fallback", "found"]);
        let config = servers.config("fallback").discover(Listed::servers(&["found"]));
        let client = if is_in_parts {
            let (client, driver) = config.into_parts();
            tokio::spawn(driver);
            client
        } else {
            config.open().unwrap()
        };
        pass(T).await;
        assert!(client.is_connected());
        assert_eq!(servers.reached().last().map(String::as_str), Some("found"));
    }
}

/// A program that keeps the list's memory would keep that of each session.
#[tokio::test(start_paused = true)]
async fn list_is_dropped_with_its_session() {
    let servers = Named::new(&["a"]);
    let list = Listed::servers(&["a"]);
    let config = servers.config("a").discover(list.clone()).follow_members();
    let client = config.connect().await.unwrap();
    assert!(Arc::strong_count(&list.asked) > 1);
    client.close().await;
    drop(client);
    pass(T).await;
    assert_eq!(Arc::strong_count(&list.asked), 1);
}

#[tokio::test(start_paused = true)]
async fn connect_dropped_while_the_list_hangs_opens_nothing() {
    let servers = Named::new(&["a"]);
    let config = servers.config("a").discover(Listed::new(Answer::Hangs));
    let connect = pin!(config.connect());
    assert!(tokio::time::timeout(T / 10, connect).await.is_err());
    pass(T * 2).await;
    assert_eq!(servers.reached(), [""; 0]);
}

const MEMBERS: &str = "server.1=m1:2888:3888:participant;0.0.0.0:2181;m1:2281\n\
                       server.2=m2:2888:3888:participant;0.0.0.0:2181;m2:2281\n\
                       version=100000002";

#[tokio::test(start_paused = true)]
async fn session_follows_members_only_if_asked() {
    for follows in [false, true] {
        let servers = Named::new(&["a", "m1", "m2"]);
        servers.set_members(MEMBERS);
        let config = servers.config("a");
        let config = if follows { config.follow_members() } else { config };
        let client = config.connect().await.unwrap();
        pass(T).await;
        assert_eq!((servers.reached(), client.connections_lost()), (vec!["a".to_owned()], 0));
        servers.run(&["m2"]);
        pass(T).await;
        assert_eq!(client.is_connected(), follows);
        assert_eq!(servers.ensemble.count(OpCode::GetData) > 0, follows);
    }
}

/// Each row: the configuration that the session reads after a reconnect, and whether it takes it.
#[tokio::test(start_paused = true)]
async fn session_takes_only_complete_and_newer_members() {
    let new = "server.3=m3:2888:3888:participant;m3:2181";
    for (text, uses_tls, is_taken) in [
        (format!("{new}\nversion=100000003"), false, true),
        (format!("{new}\nversion=100000001"), false, false),
        (format!("{new}\nserver.4=m4:2888:3888\nversion=100000003"), false, false),
        (format!("{new}\nserver.4=0.0.0.0:2888:3888;2181\nversion=100000003"), false, false),
        (format!("{new}\nserver.x=m4:2888:3888;2181\nversion=100000003"), false, false),
        ("version=100000003".to_owned(), false, false),
        (String::new(), false, false),
        (format!("{new}\nversion=100000003"), true, false),
        (format!("{new};m3:2281\nversion=100000003"), true, true),
    ] {
        let servers = Named { uses_tls, ..Named::new(&["m1", "m2"]) };
        servers.set_members(MEMBERS);
        let client = servers.config("m1,m2").follow_members().connect().await.unwrap();
        pass(T).await;
        servers.set_members(&text);
        servers.run(&["m1", "m2"]);
        pass(T).await;
        servers.run(&["m3"]);
        pass(T).await;
        assert_eq!(client.is_connected(), is_taken, "{text} with TLS: {uses_tls}");
    }
}

/// The addresses of the members have no scheme, which means plaintext to this connector.
#[tokio::test(start_paused = true)]
async fn followed_members_do_not_end_tls() {
    let servers = Named::new(&["a", "m1", "m2"]);
    servers.set_members(MEMBERS);
    let client = servers.config("tls://a").follow_members().connect().await.unwrap();
    pass(T).await;
    servers.run(&["m1", "m2"]);
    pass(T / 2).await;
    assert!(!client.is_connected());
}

#[tokio::test(start_paused = true)]
async fn session_stops_to_follow_without_a_configuration() {
    let servers = Named::new(&["a"]);
    servers.ensemble.state().script.missing.insert("/zookeeper/config".to_owned());
    let client = servers.config("a").follow_members().connect().await.unwrap();
    for lost in 1..=3 {
        servers.ensemble.cut_and_wait(&client).await;
        assert_eq!(client.connections_lost(), lost);
    }
    pass(T).await;
    assert_eq!(servers.ensemble.count(OpCode::GetData), 1);
}
