//! The servers of the ensemble: reading and changing the configuration.

use std::borrow::Cow;
use std::net::IpAddr;

use proto::{DataReply, ErrorCode, GetData, OpCode, Reconfig, Stat, Zxid};
use zk_session_core::{ErrorKind, Failure, Host, Outcome, Reply, WatchKind};

use crate::client::Client;
use crate::client::pending::{Ask, Finish, Pending, PendingWatch, decode, decode_read};

/// Configuration of an ensemble, as its servers keep it in `/zookeeper/config`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsembleConfig {
    /// The unparsed text.
    pub text: String,
    /// Stat of the node `/zookeeper/config`. Its data version has no meaning.
    pub stat: Stat,
    /// The zxid of the transaction that set this configuration; [`Client::reconfig`] compares it.
    /// The text contains it as `version`. It is [`Zxid::ZERO`] if the text has none, as on a
    /// standalone server.
    pub zxid: Zxid,
    /// The servers. The list is empty for a standalone server. It leaves out lines that cannot be
    /// parsed, which are still in the text.
    pub members: Vec<EnsembleMember>,
}

/// A server of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsembleMember {
    /// The id, as in the server's `myid`.
    pub id: u64,
    /// Address for the other servers: `host:port:port`. Several addresses are separated by `|`.
    pub peer_address: String,
    /// True if the server is an observer, which does not vote.
    pub is_observer: bool,
    /// Address for clients without TLS, `host:port`, if the configuration has one.
    pub client_address: Option<String>,
    /// Address for clients with TLS, `host:port`, if the configuration has one. Servers before 3.10
    /// write none (ZOOKEEPER-4276).
    pub secure_client_address: Option<String>,
}

impl EnsembleConfig {
    /// Returns the servers' addresses for clients without TLS, as a connect string.
    ///
    /// Returns `None` if no member has such an address.
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        self.joined(|member| member.client_address.as_deref())
    }

    /// Returns the servers' addresses for clients with TLS, as a connect string.
    ///
    /// Returns `None` if no member has such an address.
    #[must_use]
    pub fn secure_connect_string(&self) -> Option<String> {
        self.joined(|member| member.secure_client_address.as_deref())
    }

    fn joined(&self, address: impl Fn(&EnsembleMember) -> Option<&str>) -> Option<String> {
        let addresses: Vec<&str> = self.members.iter().filter_map(address).collect();
        (!addresses.is_empty()).then(|| addresses.join(","))
    }

    fn parse(text: String, stat: Stat) -> Self {
        let version = text.lines().find_map(|line| line.strip_prefix("version="));
        let zxid = version.and_then(|hex| hex.trim().parse().ok());
        let members = text.lines().filter_map(EnsembleMember::parse).collect();
        Self { zxid: zxid.unwrap_or_default(), members, text, stat }
    }
}

impl EnsembleMember {
    /// Parses `server.<id>=<host>:<port>:<port>[:<role>][;[[<host>:]<port>][;[<host>:]<port>]]`.
    fn parse(line: &str) -> Option<Self> {
        let (id, spec) = line.trim().strip_prefix("server.")?.split_once('=')?;
        let mut parts = spec.split(';');
        let peer = parts.next()?;
        let (client, secure) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return None;
        }
        let (peer_address, is_observer) = match peer.rsplit_once(':')? {
            (address, "participant") => (address, false),
            (address, "observer") => (address, true),
            _ => (peer, false),
        };
        Some(Self {
            id: id.parse().ok()?,
            peer_address: peer_address.to_owned(),
            is_observer,
            client_address: client.and_then(|address| client_address(address, peer_address)),
            secure_client_address: secure.and_then(|address| client_address(address, peer_address)),
        })
    }
}

/// Returns the address for clients. A server that listens on all interfaces is reachable at the
/// address for its peers, unless that stands for all interfaces too.
///
/// Any client with the permission to write the configuration chooses this text. It must not choose the
/// transport, and so it is the name of a host or nothing.
fn client_address(client: &str, peer_address: &str) -> Option<String> {
    let (host, port) = client.rsplit_once(':').unwrap_or(("", client));
    let port: u16 = port.parse().ok()?;
    let address = |host: &str| format!("{host}:{port}").parse::<Host>().ok();
    if !host.is_empty() {
        let address = address(host)?;
        if !is_anywhere(&address) {
            return Some(address.to_string());
        }
    }
    let peer = address(peer_address.split('|').next()?.rsplitn(3, ':').nth(2)?)?;
    (!is_anywhere(&peer)).then(|| peer.to_string())
}

/// Returns true for the address of all interfaces, which no client can connect to.
fn is_anywhere(host: &Host) -> bool {
    host.name().parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

/// # The ensemble
///
/// The configuration is in `/zookeeper/config`. A chroot does not change this path.
///
/// ```no_run
/// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
/// let config = client.get_config().await?;
/// client.update_servers_from(&config)?;
/// # Ok(())
/// # }
/// ```
impl Client {
    /// Reads the configuration of the ensemble.
    ///
    /// # Errors
    /// The server can reject the request with `NoAuth`.
    pub fn get_config(&self) -> Pending<EnsembleConfig> {
        let request = GetData { path: CONFIG_PATH.into(), watch: false };
        self.request(config_ask(OpCode::GetData, finish_read), Ok(request))
    }

    /// Reads the configuration like [`get_config`](Self::get_config), and sets a watch that fires
    /// when the configuration changes. The path of the event is `/zookeeper/config`.
    ///
    /// # Errors
    /// Returns the errors of [`get_config`](Self::get_config); no watch is set then.
    pub fn get_config_and_watch(&self) -> PendingWatch<EnsembleConfig> {
        let request = GetData { path: CONFIG_PATH.into(), watch: true };
        let ask = config_ask(OpCode::GetData, finish_read);
        self.watched(ask, CONFIG_PATH.to_owned(), Ok(request), WatchKind::Data)
    }

    /// Changes members of the ensemble, and returns the new configuration.
    ///
    /// `joining` has the servers to add or to change, each as
    /// `server.<id>=<host>:<port>:<port>[:<role>];<client port>`. `leaving` has the ids of the
    /// servers to remove; unknown ids are ignored. With `from_config`, the change applies only to the
    /// configuration with that [zxid](EnsembleConfig::zxid).
    ///
    /// # Errors
    /// The server can reject the request with:
    ///
    /// * `ReconfigDisabled`, unless reconfiguration is enabled (by default, it is not).
    /// * `Unimplemented`, if it is a standalone server.
    /// * `NoAuth`, without the permission to write `/zookeeper/config`.
    /// * `BadArguments`, if it cannot parse an entry of `joining`.
    /// * `BadVersion`, `ReconfigInProgress` or `NewConfigNoQuorum`.
    ///
    /// A negative zxid fails with `BadVersion` before anything is sent: no configuration has it, and
    /// on the wire, -1 stands for any configuration.
    pub fn reconfig(
        &self,
        joining: &[&str],
        leaving: &[u64],
        from_config: Option<Zxid>,
    ) -> Pending<EnsembleConfig> {
        let leaving: Vec<String> = leaving.iter().map(ToString::to_string).collect();
        let (joining, leaving) = (list(joining), list(&leaving));
        let request = checked_config(from_config).map(|from_config| Reconfig {
            joining,
            leaving,
            new_members: None,
            from_config,
        });
        self.request(config_ask(OpCode::Reconfig, finish_change), request)
    }

    /// Replaces the whole list of servers; otherwise like [`reconfig`](Self::reconfig).
    ///
    /// # Errors
    /// Returns the errors of [`reconfig`](Self::reconfig).
    pub fn reconfig_members(
        &self,
        members: &[&str],
        from_config: Option<Zxid>,
    ) -> Pending<EnsembleConfig> {
        // An empty list is sent, for the server to reject: without a list, the request would change
        // nothing.
        let new_members = Some(members.join(",").into());
        let request = checked_config(from_config).map(|from_config| Reconfig {
            joining: None,
            leaving: None,
            new_members,
            from_config,
        });
        self.request(config_ask(OpCode::Reconfig, finish_change), request)
    }
}

/// Returns the zxid to send. A negative one would mean any configuration.
fn checked_config(from_config: Option<Zxid>) -> Result<Zxid, Failure> {
    match from_config {
        None => Ok(Reconfig::ANY_CONFIG),
        Some(zxid) if zxid < Zxid::ZERO => {
            Err((ErrorKind::Server(ErrorCode::BAD_VERSION), Outcome::NotApplied))
        }
        Some(zxid) => Ok(zxid),
    }
}

/// The chroot does not apply to this path.
fn config_ask(
    op: OpCode,
    finish: fn(Result<Reply, Failure>) -> Result<EnsembleConfig, Failure>,
) -> Ask<EnsembleConfig> {
    let (operation, path) = (op.into(), CONFIG_PATH.to_owned());
    Ask { operation, path, chroot_len: 0, finish: Finish::Plain(finish) }
}

fn finish_read(result: Result<Reply, Failure>) -> Result<EnsembleConfig, Failure> {
    decode_read(result).map(config)
}

fn finish_change(result: Result<Reply, Failure>) -> Result<EnsembleConfig, Failure> {
    decode(result).map(config)
}

fn config(DataReply { data, stat }: DataReply) -> EnsembleConfig {
    let text = String::from_utf8_lossy(&data.unwrap_or_default()).into_owned();
    EnsembleConfig::parse(text, stat)
}

fn list<T: AsRef<str>>(items: &[T]) -> Option<Cow<'static, str>> {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    (!items.is_empty()).then(|| items.join(",").into())
}

const CONFIG_PATH: &str = "/zookeeper/config";

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The server has answered that the members are changed.
    #[test]
    fn reconfig_with_a_broken_answer_is_applied() {
        let reply = || Ok(Reply { zxid: Zxid(9), body: Bytes::new() });
        let outcome = |result: Result<EnsembleConfig, Failure>| result.unwrap_err().1;
        assert_eq!(outcome(finish_change(reply())), Outcome::Applied);
        assert_eq!(outcome(finish_read(reply())), Outcome::NotApplied);
    }

    #[test]
    fn ensemble_config_parses_the_text_of_servers() {
        let text = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=zk2:2888:3888|zk2b:2889:3889:observer;2182\n\
                    server.3=[fe80::3]:2888:3888:participant;[::]:2183\n\
                    server.4=zk4:2888:3888:participant;zk4-public:2184\n\
                    server.5=zk5:2888:3888:participant\n\
                    server.x=zk6:2888:3888:participant;2186\n\
                    version=100000002";
        let config = EnsembleConfig::parse(text.into(), Stat::default());
        assert_eq!(config.zxid, Zxid(0x1_0000_0002));
        let ids: Vec<u64> = config.members.iter().map(|member| member.id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        let observers: Vec<bool> = config.members.iter().map(|member| member.is_observer).collect();
        assert_eq!(observers, [false, true, false, false, false]);
        assert_eq!(config.members[1].peer_address, "zk2:2888:3888|zk2b:2889:3889");
        let servers = "10.0.0.1:2181,zk2:2182,[fe80::3]:2183,zk4-public:2184";
        assert_eq!(config.connect_string().as_deref(), Some(servers));
    }

    /// Servers after 3.9 write two addresses, of which the first one may be missing (ZOOKEEPER-4276).
    #[test]
    fn ensemble_config_has_addresses_with_and_without_tls() {
        let text = "server.1=zk1:2888:3888:participant;zk1:2181;zk1:2281\n\
                    server.2=zk2:2888:3888:participant;;zk2:2282\n\
                    server.3=zk3:2888:3888:participant;2183;0.0.0.0:2283\n\
                    server.4=zk4:2888:3888:participant;2184;2284;1";
        let config = EnsembleConfig::parse(text.into(), Stat::default());
        assert_eq!(config.members.len(), 3);
        assert_eq!(config.connect_string().as_deref(), Some("zk1:2181,zk3:2183"));
        let secure = config.secure_connect_string();
        assert_eq!(secure.as_deref(), Some("zk1:2281,zk2:2282,zk3:2283"));
    }

    /// A server in a container often names itself so, and every client would connect to its own machine.
    #[test]
    fn ensemble_config_has_no_address_of_all_interfaces() {
        for (peer, client, expected) in [
            ("0.0.0.0:2888:3888", "0.0.0.0:2181", None),
            ("0.0.0.0:2888:3888", "2181", None),
            ("[::]:2888:3888", "[::]:2181", None),
            ("0.0.0.0:2888:3888", "zk1:2181", Some("zk1:2181")),
            ("zk1:2888:3888", "[::0]:2181", Some("zk1:2181")),
            ("[::1]:2888:3888", "[0:0:0:0:0:0:0:0]:2181", Some("[::1]:2181")),
        ] {
            assert_eq!(client_address(client, peer).as_deref(), expected, "{peer};{client}");
        }
    }

    /// A client that writes the configuration must not choose how other clients connect.
    #[test]
    fn ensemble_config_names_hosts_and_nothing_else() {
        for client in [
            "tcp://evil:2181",
            "tls://evil:2181",
            "evil:2181,other:2181",
            "evil:2181/chroot",
            "user@evil:2181",
            "ev il:2181",
            "evil:0",
            "evil:x",
            "ev\u{200b}il:2181",
            "ev\u{1b}[2Jil:2181",
        ] {
            let text = format!("server.1=zk1:2888:3888:participant;{client};{client}");
            let config = EnsembleConfig::parse(text, Stat::default());
            assert_eq!(config.members.len(), 1, "{client}");
            assert_eq!(
                (config.connect_string(), config.secure_connect_string()),
                (None, None),
                "{client}"
            );
        }
    }

    #[test]
    fn reconfig_lists_are_joined_and_absent_if_empty() {
        assert_eq!(list(&["server.4=d", "server.5=e"]).as_deref(), Some("server.4=d,server.5=e"));
        assert_eq!(list::<&str>(&[]), None);
    }

    #[test]
    fn ensemble_config_of_standalone_server_is_empty() {
        for text in ["", "server.\nversion=\n=;", "server.1=;"] {
            let config = EnsembleConfig::parse(text.into(), Stat::default());
            assert_eq!((config.zxid, config.members.as_slice()), (Zxid::ZERO, &[][..]), "{text}");
            assert_eq!(config.connect_string(), None);
        }
    }
}
