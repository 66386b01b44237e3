//! The command line of `zk`.

use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use zk_srv::Srv;

use crate::digest::Digest;
use crate::in_session::InSession;
use crate::prelude::{ClapArgs, Duration, Result};
use crate::security::Security;
use crate::server::Server;
use crate::subtree::TREE_MIB_DEFAULT;
use crate::time_arg::{positive_seconds, session_seconds};

/// Locks and plain operations on ZooKeeper.
#[derive(Debug, Parser)]
#[command(
    name = "zk",
    version,
    max_term_width = 100,
    next_help_heading = "Common options",
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Examples:
  zk lock /locks/backup -- ./backup.sh           run a command under a lock
  zk lock /locks/backup --timeout 5 -- ./backup.sh || echo 'it is held'
  zk participants /locks/backup                  who holds it, who waits
  zk top /locks                                  all locks, live
  zk doctor                                      is this ensemble well?
  zk semaphore /licences --permits 3 -- ./solve  at most three at a time
  zk multilock /locks/a /locks/b -- ./transfer   all of them or none
  zk register /backends/a h:80 -- ./serve        a node while it runs
  zk create /app/config '{\"a\":1}' --parents && zk get /app/config
  zk get /app/logo | zk set /app/logo.old -
  ZK_AUTH=digest:alice:secret zk create /mine --acl auth::cdrwa
  zk --connect tls://zk1:2281 --cacert ca.pem ls /
  zk server                                      a ZooKeeper in memory

Exit status:
  that of the command run under a lock, or 0
  1      an error, told by one line on standard error
  64     the command line cannot be understood
  69     the ensemble cannot be reached
  74     the lock was lost while the command ran
  75     the lock was not acquired, or the barrier not removed, in time
  78     another kind of lock uses the path, and would not exclude this one
  126    the command cannot be run
  127    the command was not found
  128+N  signal N ended the command, or zk while it waited: 130 for SIGINT

If zk gets SIGINT and would end with 130, it dies by SIGINT after its clean-up. A shell shows 130 for it, \
and ends loops and scripts.

A command goes on after a lost connection. It repeats a request, if need be in another session, if the \
server has certainly not applied it, and no other request. The ensemble cannot be reached if it opens \
no session in 10 s (see --retry), or answers no request for twice the session timeout (at least 10 s, \
at most 2 minutes). A command waits without a limit for a lock that others hold, and with --read-only for \
a majority, unless --timeout sets one."
)]
pub(crate) struct Args {
    /// The servers of the ensemble, and the path under which all paths lie.
    ///
    /// The default port is 2181. IPv6 addresses go in brackets. Hosts with TLS may have
    /// tls:// before them, and those without tcp://. srv://NAME[/chroot] stands for the servers of
    /// the DNS SRV records of NAME, for example srv://_zookeeper._tcp.example.com.
    #[arg(
        long,
        global = true,
        env = "ZK_CONNECT",
        hide_env_values = true,
        value_name = "HOST:PORT[,HOST:PORT…][/chroot]",
        default_value = "127.0.0.1:2181"
    )]
    pub(crate) connect: String,

    /// Create the chroot of --connect, its path, if it does not exist.
    ///
    /// The nodes are persistent, and open to everyone. Without this option, a missing chroot is
    /// an error of each command, because it is usually a typing error.
    #[arg(long, global = true)]
    pub(crate) create_chroot: bool,

    /// How long the session outlives this process, if the process dies; at least 0.1.
    ///
    /// A lock survives a shorter interruption of the connection. The server limits the
    /// value to its own bounds.
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = session_seconds
    )]
    pub(crate) session_timeout: Duration,

    /// Print JSON, one value a line: also errors and notes, on standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print sessions, lost connections, and the holder of the lock on standard error.
    ///
    /// Lines that nobody reads in time are dropped and counted: they delay no command.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,

    /// Keep trying for so long to open a session, when the ensemble cannot be reached.
    ///
    /// Without this option it is 10 s, and 1 s for the first session if all servers refuse
    /// connections and the command is not one that waits for a lock.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) retry: Option<Duration>,

    /// The most that the paths of a tree may have for a command that walks over it, in MiB.
    ///
    /// A server that invents nodes without end must not fill the memory.
    #[arg(
        long,
        global = true,
        value_name = "MIB",
        default_value_t = TREE_MIB_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true
    )]
    pub(crate) tree_limit: u32,

    /// The longest request that is sent, in bytes.
    ///
    /// If the servers have another jute.maxbuffer, set the same value.
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        default_value = "1048575",
        value_parser = clap::value_parser!(u32).range(1_024..=i64::from(i32::MAX)),
        hide_short_help = true
    )]
    pub(crate) max_request_len: u32,

    /// The longest answer that is accepted, in bytes.
    ///
    /// The jute.maxbuffer of the servers does not limit their answers, for example the list of the
    /// children of one node.
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        default_value = "16777216",
        value_parser = clap::value_parser!(u32).range(1_024..=i64::from(i32::MAX)),
        hide_short_help = true
    )]
    pub(crate) max_frame_len: u32,

    /// Also read from a server that has lost the majority.
    ///
    /// Its replies may be out of date by any amount. It refuses writes, locks and sync. Servers
    /// do this only with readonlymode.enabled=true. Servers of a majority are preferred.
    #[arg(long, global = true)]
    pub(crate) read_only: bool,

    #[command(flatten)]
    pub(crate) security: Security,

    #[command(subcommand)]
    pub(crate) command: Command,

    /// The paths of nodes in the arguments of the command: those with the names `path`, `paths` and
    /// `node`. They are checked before any request is sent.
    #[arg(skip)]
    pub(crate) paths: Vec<String>,

    /// The list of servers, if `connect` had srv:// before the name of its records.
    #[arg(skip)]
    pub(crate) srv: Option<Srv>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    InSession(InSession),

    /// Print the identity of a user with a password: digest:USER:HASH.
    ///
    /// Access control lists name it so, with the permissions behind it. The hash is the SHA-1 of
    /// USER:PASSWORD in base64, and not that of the password alone. Servers can be set to another
    /// algorithm (DigestAuthenticationProvider.digestAlg). The command needs no server.
    Digest(Digest),

    /// Examine the servers: versions, round trips, timeouts, certificates, clocks.
    ///
    /// Each server of the connect string is examined alone. An ephemeral node is created and
    /// deleted, to measure a write and to read the leader's clock. A line is a finding: ok, note,
    /// warning or error, the server, and the finding itself. The exit status is 0 without
    /// warnings and errors, 1 if the worst finding is a warning, and 69 if it is an error.
    ///
    /// A server that is twice in the connect string is a warning. So are a voting member of the ensemble
    /// that is not in it, a server in it that is no member, and a server in memory. A certificate that
    /// expires in less than 30 days is a warning too, and so are servers with different ticks. Different
    /// versions are a note: a rolling upgrade has them for a while. A lost member and a lost majority both
    /// end with status 69.
    ///
    /// In JSON, a finding has the level, a code that stays the same between releases, and the values of
    /// its text: times in fields that end with _ms, counts, and lists of servers.
    ///
    /// The last line tells whether a majority serves. Its JSON has the field majority: true, false, or
    /// null if no server serves and one of them rejects this client. If the servers are not of one
    /// ensemble, the line tells that instead.
    #[command(after_help = "\
Examples:
  zk doctor
  zk doctor --json
  zk doctor --json | grep -q '\"majority\":true'")]
    Doctor,

    /// Print the manual page of this command, or of one of its commands.
    Man(Man),

    /// Print a script with which a shell completes commands and options.
    #[command(after_help = "\
Example:
  source <(zk completions bash)")]
    Completions {
        /// The shell.
        shell: Shell,
    },

    /// Run an in-memory ZooKeeper server, for development only, until interrupted.
    Server(Server),
}

impl Args {
    pub(crate) fn of_command_line() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let paths = matches.subcommand().map(|(_, command)| paths(command));
        Ok(Self { paths: paths.unwrap_or_default(), ..Self::from_arg_matches(&matches)? })
    }

    /// Replaces srv:// in `connect` by a list of servers.
    pub(crate) fn take_srv(&mut self) -> Result<()> {
        if let Some((srv, connect)) = Srv::of(&self.connect)? {
            (self.srv, self.connect) = (Some(srv), connect);
        }
        Ok(())
    }
}

/// Returns the paths of nodes in the arguments of a command.
fn paths(command: &ArgMatches) -> Vec<String> {
    let values = |id: &&str| command.try_get_many::<String>(id).ok().flatten();
    let paths = ["path", "paths", "node"].iter().filter_map(values).flatten();
    // The appended number may be the whole name.
    let is_prefix = command.try_get_one("sequential").is_ok_and(|is_set| is_set == Some(&true));
    paths.map(|path| if is_prefix { format!("{path}0") } else { path.clone() }).collect()
}

/// The `man` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk man lock > zk-lock.1
  mkdir man1 && zk man --dir man1")]
pub(crate) struct Man {
    /// The command, for example lock. The default is the page of zk.
    pub(crate) command: Option<String>,

    /// Write the pages of all commands to this directory: zk.1, zk-lock.1 and so on.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_definition_is_consistent() {
        Args::command().debug_assert();
    }

    /// Paragraphs broken by hand are ragged on terminals of other widths, and so are long examples.
    #[test]
    fn help_has_whole_paragraphs_and_short_examples() {
        let zk = Args::command();
        for command in std::iter::once(&zk).chain(zk.get_subcommands()) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let lines: Vec<&str> = text.lines().collect();
            let broken = lines.windows(2).find(|two| is_text(two[0]) && is_text(two[1]));
            assert_eq!(broken, None, "zk {}", command.get_name());
            let long = lines.iter().find(|line| !is_text(line) && line.chars().count() > 75);
            assert_eq!(long, None, "zk {}", command.get_name());
        }
    }

    #[test]
    fn options_are_accepted_before_and_after_the_command() {
        for line in [
            vec!["zk", "--connect", "h:1", "--json", "--session-timeout", "0.5", "ls", "/a"],
            vec!["zk", "ls", "/a", "--connect", "h:1", "--json", "--session-timeout", "0.5"],
        ] {
            let args = Args::try_parse_from(line).unwrap();
            assert_eq!((args.connect.as_str(), args.json), ("h:1", true));
            assert_eq!(args.session_timeout, Duration::from_millis(500));
        }
    }

    #[test]
    fn paths_of_nodes_are_found_in_each_command() {
        for (line, expected) in [
            (&["zk", "get", "/a"][..], &["/a"][..]),
            (&["zk", "revoke", "/a"], &["/a"]),
            (&["zk", "multilock", "/a", "/b", "--", "x"], &["/a", "/b"]),
            (&["zk", "create", "/a/"], &["/a/"]),
            (&["zk", "create", "/a/", "--sequential"], &["/a/0"]),
            (&["zk", "whoami"], &[]),
        ] {
            let matches = Args::command().try_get_matches_from(line).unwrap();
            assert_eq!(paths(matches.subcommand().unwrap().1), expected, "{line:?}");
        }
    }

    #[test]
    fn arguments_after_the_dashes_are_the_command() {
        let line = ["zk", "lock", "/l", "--timeout", "3", "--", "sh", "-c", "x", "--json"];
        let args = Args::try_parse_from(line).unwrap();
        let Command::InSession(InSession::Lock(lock)) = args.command else { panic!("{args:?}") };
        assert_eq!(lock.contender.command, ["sh", "-c", "x", "--json"]);
        assert_eq!(lock.timeout, Some(Duration::from_secs(3)));
        assert!(!args.json);
    }

    #[test]
    fn listen_address_has_a_default_and_prefers_ipv4() {
        let listen = |text: &[&str]| {
            let line = ["zk", "server"].iter().chain(text);
            let Command::Server(server) = Args::try_parse_from(line).unwrap().command else {
                panic!("{text:?}")
            };
            server.listen.to_string()
        };
        assert_eq!(listen(&[]), "127.0.0.1:2181");
        assert_eq!(listen(&["--listen", "localhost:0"]), "127.0.0.1:0");
        assert_eq!(listen(&["--listen", "[::1]:2182"]), "[::1]:2182");
    }

    #[test]
    fn invalid_command_lines_are_rejected() {
        for line in [
            vec!["zk", "lock", "/l"],
            vec!["zk", "lock", "/l", "echo"],
            vec!["zk", "lock", "/l", "--timeout", "-1", "--", "x"],
            vec!["zk", "lock", "/l", "--timeout", "nan", "--", "x"],
            vec!["zk", "lock", "/l", "--read", "--write", "--", "x"],
            vec!["zk", "lock", "/l", "--read", "--no-reentrant", "--", "x"],
            vec!["zk", "lock", "/l", "--write", "--no-reentrant", "--", "x"],
            vec!["zk", "lock", "/l", "--read=no", "--", "x"],
            vec!["zk", "semaphore", "/s", "--", "x"],
            vec!["zk", "semaphore", "/s", "--permits", "0", "--", "x"],
            vec!["zk", "semaphore", "/s", "--permits", "1", "--take", "4097", "--", "x"],
            vec!["zk", "multilock", "--", "x"],
            vec!["zk", "create", "/a", "--ephemeral", "--container"],
            vec!["zk", "create", "/a", "--ttl", "0"],
            vec!["zk", "create", "/a", "--acl", "world:anyone"],
            vec!["zk", "set", "/a", "x", "--acl", "world:anyone:r"],
            vec!["zk", "setacl", "/a"],
            vec!["zk", "setacl", "/a", "auth::x"],
            vec!["zk", "whoami", "/a"],
            vec!["zk", "server", "--listen", "2181"],
            vec!["zk", "server", "--listen", "127.0.0.1"],
            vec!["zk", "server", "--listen", "127.0.0.1:65536"],
            vec!["zk", "server", "--tick-time", "0"],
            vec!["zk", "server", "/a"],
            vec!["zk", "frobnicate"],
        ] {
            assert!(Args::try_parse_from(&line).is_err(), "{line:?}");
        }
    }
}
