//! Configuration of a server: the settings of a test, and the resulting files.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use super::{Error, kerberos};

/// Settings of the servers of a test.
///
/// Defaults: `tickTime` 2000 ms, no limit on connections per client, all four-letter commands and TTL nodes
/// enabled, no admin server, no forced sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    tick_ms: u32,
    lines: Vec<String>,
    jvm_flags: Vec<String>,
    sasl_users: Vec<(String, String)>,
    kerberos: Option<PathBuf>,
    has_tls: bool,
    pub(super) namespaces: usize,
    pub(super) observers: usize,
}

/// Returns a file of the certificates for tests of TLS; see the README beside them.
#[must_use]
pub fn certificate(name: &str) -> PathBuf {
    let folder = "../zk-tls/tests/certificates";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick_ms: 2000,
            lines: Vec::new(),
            jvm_flags: Vec::new(),
            sasl_users: Vec::new(),
            kerberos: None,
            has_tls: false,
            namespaces: VOTERS,
            observers: 0,
        }
    }
}

impl Settings {
    /// Sets ZooKeeper's `tickTime`. Sessions may request 2 to 20 ticks, and expire with a precision of one
    /// tick.
    #[must_use]
    pub fn tick_ms(mut self, tick_ms: u32) -> Self {
        self.tick_ms = tick_ms;
        self
    }

    /// Sets how many servers an ensemble in namespaces has, and how many of them are observers: three and
    /// none by default.
    #[must_use]
    pub fn namespaces(mut self, servers: usize, observers: usize) -> Self {
        (self.namespaces, self.observers) = (servers, observers);
        self
    }

    /// Sets the interval at which the server checks for empty containers and expired TTL nodes. The default
    /// is one minute.
    #[must_use]
    pub fn container_check_ms(self, interval_ms: u32) -> Self {
        self.jvm_flag(format!("-Dznode.container.checkIntervalMs={interval_ms}"))
    }

    /// Keeps the server from deleting empty containers and expired TTL nodes.
    #[must_use]
    pub fn keep_containers(self) -> Self {
        // About the longest interval that a server takes.
        self.container_check_ms(2_000_000_000)
    }

    /// Adds a line to the configuration file. It overrides a line of the harness with the same key.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key}={value}"));
        self
    }

    /// Returns true if the configuration has this line of a test.
    pub(super) fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|own| own == line)
    }

    /// Adds an argument for the JVM, for example `-Dzookeeper.skipACL=yes`.
    #[must_use]
    pub fn jvm_flag(mut self, flag: impl Into<String>) -> Self {
        self.jvm_flags.push(flag.into());
        self
    }

    /// Serves clients with TLS, with a key store and a trust store in PEM: on the client port, which
    /// tells TLS and plaintext apart, and alone on a port of its own of
    /// a standalone server.
    #[must_use]
    pub fn tls(mut self, key_store: &Path, trust_store: &Path) -> Self {
        self.has_tls = true;
        self.config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
            .config("ssl.keyStore.location", &key_store.display().to_string())
            .config("ssl.trustStore.location", &trust_store.display().to_string())
            .jvm_flag("-Dzookeeper.client.portUnification=true")
    }

    /// Adds a user for SASL with DIGEST-MD5. The server offers SASL if it has a user.
    #[must_use]
    pub fn sasl_user(mut self, user: &str, password: &str) -> Self {
        self.sasl_users.push((user.to_owned(), password.to_owned()));
        self
    }

    /// Makes the server `zookeeper/localhost` in the realm whose files are in `folder`; see
    /// [`KerberosRealm::environment`](super::KerberosRealm::environment). A server has either this or users
    /// for DIGEST-MD5.
    #[must_use]
    pub fn kerberos(mut self, folder: &Path) -> Self {
        self.kerberos = Some(folder.to_owned());
        self
    }

    pub(super) fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Returns the arguments for the JVM of the server in `folder`.
    pub(crate) fn jvm_flags(&self, folder: &Path) -> Vec<String> {
        let mut flags = self.jvm_flags.clone();
        if let Some(realm) = &self.kerberos {
            let file = kerberos::krb5_conf(realm);
            flags.push(format!("-Djava.security.krb5.conf={}", file.display()));
        }
        if self.login_module().is_some() {
            let file = folder.join(SASL_FILE);
            flags.push(format!("-Djava.security.auth.login.config={}", file.display()));
        }
        flags
    }

    /// Returns the text of the file for SASL, if the server offers SASL.
    fn login_module(&self) -> Option<String> {
        match &self.kerberos {
            Some(realm) => Some(kerberos::login_module(realm)),
            None if self.sasl_users.is_empty() => None,
            None => Some(digest_module(&self.sasl_users)),
        }
    }

    /// Writes all files that a server at `client` reads at its start into `folder`.
    pub(crate) fn write(
        &self,
        folder: &Path,
        client: SocketAddrV4,
        membership: Option<&Membership>,
    ) -> Result<(), Error> {
        let data = folder.join("data");
        fs::create_dir_all(&data).map_err(Error::io(format_args!("making {}", data.display())))?;

        let mut lines = vec![
            format!("tickTime={}", self.tick_ms),
            format!("dataDir={}", data.display()),
            "initLimit=10".to_owned(),
            "syncLimit=5".to_owned(),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "extendedTypesEnabled=true".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
        ];
        match membership {
            // The server's line contains the client address in this case, except in 3.4.
            Some(Membership { own_id, members, is_3_4 }) => {
                if *is_3_4 {
                    let without_client = |line: String| line.split(';').next().map(str::to_owned);
                    lines.extend(members.iter().map(Member::line).filter_map(without_client));
                    lines.extend(client_lines(client));
                } else {
                    lines.extend(members.iter().map(Member::line));
                }
                if members.iter().any(|member| member.id == *own_id && member.is_observer) {
                    lines.push("peerType=observer".to_owned());
                }
            }
            None => lines.extend(client_lines(client)),
        }
        if let Some(module) = self.login_module() {
            let provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
            lines.push(format!("authProvider.sasl={provider}"));
            write(&folder.join(SASL_FILE), &module)?;
        }
        lines.extend(self.lines.iter().cloned());
        lines.push(String::new());

        write(&folder.join(CONFIG_FILE), &lines.join("\n"))?;
        // For the logging backends that may be beside a server: log to standard output, from INFO up. Without
        // these files, Log4j 1 logs nothing, Log4j 2 only errors, and Logback every packet.
        write(&folder.join("logback.xml"), LOGBACK)?;
        write(&folder.join("log4j.properties"), LOG4J)?;
        write(&folder.join("log4j2.xml"), LOG4J2)?;
        if let Some(membership) = membership {
            write(&data.join("myid"), &format!("{}\n", membership.own_id))?;
        }
        Ok(())
    }
}

/// Ensemble that a server belongs to.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) own_id: usize,
    pub(crate) members: Vec<Member>,
    /// The servers are of 3.4, which reads client addresses in lines of their own.
    pub(crate) is_3_4: bool,
}

fn client_lines(client: SocketAddrV4) -> [String; 2] {
    [format!("clientPortAddress={}", client.ip()), format!("clientPort={}", client.port())]
}

/// Server of an ensemble, as in the configuration of all members.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: usize,
    pub(crate) client: SocketAddrV4,
    pub(crate) quorum_port: u16,
    pub(crate) election_port: u16,
    pub(crate) is_observer: bool,
}

impl Member {
    pub(super) fn line(&self) -> String {
        let Self { id, client, quorum_port, election_port, is_observer } = self;
        let role = if *is_observer { "observer" } else { "participant" };
        format!("server.{id}={}:{quorum_port}:{election_port}:{role};{client}", client.ip())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io(format_args!("writing {}", path.display())))
}

/// Size of the smallest ensemble that tolerates the loss of a server.
const VOTERS: usize = 3;

/// Name of ZooKeeper's configuration file in a server's folder.
pub(crate) const CONFIG_FILE: &str = "zoo.cfg";

/// Name of the file for SASL in a server's folder.
const SASL_FILE: &str = "jaas.conf";

/// Returns the text of that file, for DIGEST-MD5.
fn digest_module(users: &[(String, String)]) -> String {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let users: Vec<String> =
        users.iter().map(|(user, password)| format!("  user_{user}=\"{password}\"")).collect();
    format!("Server {{\n  {module} required\n{};\n}};\n", users.join("\n"))
}

const LOGBACK: &str = r#"<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} [%thread] %-5level %logger{1} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"#;

const LOG4J: &str = "log4j.rootLogger=INFO, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{HH:mm:ss,SSS} [%t] %-5p %c{1} %m%n
";

const LOG4J2: &str = r#"<Configuration status="WARN">
  <Appenders>
    <Console name="OUT"><PatternLayout pattern="%d{HH:mm:ss,SSS} [%t] %-5p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="OUT"/></Root></Loggers>
</Configuration>
"#;
