//! Four-letter words: plain-text commands that replace a connect request.

use std::fmt::Write as _;

use super::Ensemble;
use super::connection::{Connection, State};
use super::connection_id::ConnectionId;
use super::faults::Cut;
use super::replication::Server;
use super::settings::millis;

/// Supported words.
const WORDS: [&str; 9] = ["ruok", "srvr", "stat", "mntr", "cons", "wchs", "isro", "conf", "envi"];

/// Returns whether the first bytes of a connection are a word and not the length of a frame.
pub(super) fn is_word(bytes: [u8; 4]) -> bool {
    WORDS.iter().any(|word| word.as_bytes() == bytes)
}

impl Ensemble {
    /// Answers a word and closes the connection.
    pub(super) fn answer_word(&mut self, id: ConnectionId, bytes: [u8; 4]) {
        let Some(word) = WORDS.into_iter().find(|word| word.as_bytes() == bytes) else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at = connection.server;
        connection.inbound.clear();
        connection.traffic.received += 1;
        self.servers[at].received += 1;
        let allowed = self.settings.four_letter_words.as_ref();
        let text = if allowed.is_some_and(|allowed| !allowed.iter().any(|name| name == word)) {
            format!("{word} is not executed because it is not in the whitelist.\n")
        } else {
            self.word(at, word)
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.outbox.push(|out| out.extend_from_slice(text.as_bytes()));
        }
        self.close(id, Cut::Fin);
    }

    fn word(&self, at: usize, word: &str) -> String {
        let server = &self.servers[at];
        let is_serving = self.serves(at);
        match word {
            "ruok" => "imok".to_owned(),
            "isro" if !is_serving => "null".to_owned(),
            "isro" if server.read_only => "ro".to_owned(),
            "isro" => "rw".to_owned(),
            "conf" => self.conf(at),
            // Clients read the version here (Python's kazoo does). There is no Java environment to
            // report.
            "envi" => format!(
                "Environment:\nzookeeper.version={}\nhost.name=localhost\n",
                self.settings.version.text()
            ),
            _ if !is_serving => {
                "This ZooKeeper instance is not currently serving requests\n".to_owned()
            }
            "srvr" => format!("{}{}", self.version_line(), self.summary(at)),
            "stat" => {
                let mut clients = "Clients:\n".to_owned();
                for (_, connection) in self.connections_at(at) {
                    clients.push_str(&client_line(connection, ""));
                }
                format!("{}{clients}\n{}", self.version_line(), self.summary(at))
            }
            "cons" => {
                let mut text = String::new();
                for (_, connection) in self.connections_at(at) {
                    text.push_str(&client_line(connection, &details(connection)));
                }
                text.push('\n');
                text
            }
            "wchs" => {
                let (connections, paths, watches) = server.watches.summary();
                format!(
                    "{connections} connections watching {paths} paths\nTotal watches:{watches}\n"
                )
            }
            _ => self.monitor(at),
        }
    }

    fn version_line(&self) -> String {
        let version = self.settings.version;
        format!("{} version: {}\n", version.product(), version.text())
    }

    fn summary(&self, at: usize) -> String {
        let server = &self.servers[at];
        let read_only =
            if server.read_only { "READ-ONLY mode; serving only read-only clients\n" } else { "" };
        format!(
            "{read_only}Latency min/avg/max: 0/0.0/0\nReceived: {}\nSent: {}\nConnections: {}\n\
             Outstanding: {}\nZxid: {}\nMode: {}\nNode count: {}\n",
            server.received,
            server.sent,
            self.connections_at(at).len(),
            self.outstanding(at),
            server.tree.last_zxid,
            self.mode(at),
            node_count(server),
        )
    }

    fn monitor(&self, at: usize) -> String {
        let server = &self.servers[at];
        let uptime = self.clock.since(self.now).as_millis();
        let values: [(&str, String); 16] = [
            ("version", self.settings.version.text().to_owned()),
            ("server_state", self.mode(at).to_owned()),
            ("znode_count", node_count(server).to_string()),
            ("watch_count", server.watches.len().to_string()),
            ("ephemerals_count", server.tree.ephemerals_count().to_string()),
            ("approximate_data_size", server.tree.data_len().to_string()),
            ("num_alive_connections", self.connections_at(at).len().to_string()),
            ("outstanding_requests", self.outstanding(at).to_string()),
            ("packets_received", server.received.to_string()),
            ("packets_sent", server.sent.to_string()),
            ("min_latency", "0".to_owned()),
            ("avg_latency", "0.0".to_owned()),
            ("max_latency", "0".to_owned()),
            ("global_sessions", self.sessions.len().to_string()),
            ("local_sessions", server.local_sessions.len().to_string()),
            ("uptime", uptime.to_string()),
        ];
        let mut text = String::new();
        for (key, value) in values {
            // Writing to a string does not fail.
            let _ = writeln!(text, "zk_{key}\t{value}");
        }
        text
    }

    fn conf(&self, at: usize) -> String {
        let settings = &self.settings;
        let tick_ms = millis(settings.tick(at));
        let id = if self.servers.len() == 1 { 0 } else { at + 1 };
        format!(
            "clientPort=2181\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\n\
             dataLogSize=0\ntickTime={tick_ms}\nmaxClientCnxns={}\nminSessionTimeout={}\n\
             maxSessionTimeout={}\nclientPortListenBacklog=-1\nserverId={id}\n",
            settings.max_client_connections,
            settings.negotiate_ms(at, i32::MIN),
            settings.negotiate_ms(at, i32::MAX),
        )
    }

    fn mode(&self, at: usize) -> &'static str {
        match at {
            _ if self.servers[at].read_only => "read-only",
            _ if self.servers.len() == 1 => "standalone",
            _ if at == self.leader || self.servers[at].isolated.is_some() => "leader",
            _ => "follower",
        }
    }

    fn outstanding(&self, at: usize) -> usize {
        self.connections_at(at).iter().map(|(_, connection)| connection.waiting.len()).sum()
    }

    fn connections_at(&self, at: usize) -> Vec<(ConnectionId, &Connection)> {
        let here = self.connections.iter().filter(|(_, connection)| connection.server == at);
        let mut here: Vec<_> = here.map(|(id, connection)| (*id, connection)).collect();
        here.sort_unstable_by_key(|(id, _)| *id);
        here
    }
}

/// Returns the number of nodes. The root counts twice: a real server's table contains it as `/` and
/// as the empty path.
fn node_count(server: &Server) -> usize {
    server.tree.len() + 1
}

fn client_line(connection: &Connection, details: &str) -> String {
    let opened = usize::from(connection.state != State::Fresh);
    let traffic = &connection.traffic;
    format!(
        " /{}[{opened}](queued={},recved={},sent={}{details})\n",
        connection.peer,
        connection.waiting.len(),
        traffic.received,
        traffic.sent,
    )
}

/// Returns the fields that cons adds to a line with a session.
fn details(connection: &Connection) -> String {
    let State::Open { session_id, timeout_ms } = connection.state else { return String::new() };
    let traffic = &connection.traffic;
    let op = traffic.last_op.and_then(proto::OpCode::from_code);
    format!(
        ",sid={session_id},lop={},est=0,to={timeout_ms},lcxid=0x{:x},lzxid={},lresp=0,\
         llat=0,minlat=0,avglat=0,maxlat=0",
        op.map_or("NA", proto::OpCode::name),
        traffic.last_xid,
        traffic.last_zxid,
    )
}
