//! The command line of `zk`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use zk_recipes::session::{Acl, PathError, validate_path};

use crate::acl::{self, NewNodeAcl};
use crate::barrier::BarrierArgs;
use crate::bench::BenchArgs;
use crate::counter::Counter;
use crate::data::NewData;
use crate::digest::Digest;
use crate::discover::Discover;
use crate::ensemble::Reconfig;
use crate::export::Export;
use crate::failure::Failure;
use crate::find::{Ephemerals, Find};
use crate::import::Import;
use crate::limit_args::LimitArgs;
use crate::lock_args::{Elect, Lock, Multilock, Semaphore};
use crate::nodes::Create;
use crate::register::Register;
use crate::security::Security;
use crate::server::Server;
use crate::time_arg::{positive_seconds, session_seconds};
use crate::top::Top;
use crate::tree::Tree;
use crate::txn::Txn;
use crate::watch::WatchArgs;

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
    /// tls:// before them, and those without tcp://.
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

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock.
    Lock(Lock),

    /// Run a command while this candidate leads an election.
    Elect(Elect),

    /// Run a command while holding permits of a semaphore.
    Semaphore(Semaphore),

    /// Run a command while holding several locks.
    Multilock(Multilock),

    /// Keep a node while a command runs, over lost sessions.
    Register(Register),

    /// List the services below a path, or the instances of one, or follow them.
    Discover(Discover),

    /// Ask the holder of a node to release its lock or permits.
    ///
    /// A holder that reacts, such as zk lock --revocable, ends its work and releases the
    /// lock; others ignore the request. Java services send and receive the same request.
    #[command(after_help = "\
Example:
  zk revoke $(zk participants /locks/report | head -1 | cut -f 1)")]
    Revoke {
        /// The node, as `participants` lists it.
        node: String,
    },

    /// List the holder of a lock and its waiters, in order.
    ///
    /// On a terminal it is a table: the position, whether the contender holds the lock or waits, its
    /// name, host, process and address, and for how long its node has existed, from the clock of the
    /// ensemble to that of this machine.
    ///
    /// Elsewhere each contender is one line: the full path of its node, a tab, and its data,
    /// by default the address, the host, the process and the name. Java services write the
    /// address only.
    ///
    /// If the path does not exist, nothing is listed, and the exit status is 0: servers delete the
    /// path of a lock that nobody uses. A line on standard error tells it, as it does if the path is not
    /// one of a lock.
    #[command(after_help = "\
Examples:
  zk participants /locks/report
  zk participants /licences --semaphore --table")]
    Participants {
        /// The path of the lock.
        path: String,
        /// List the permits of a semaphore, or of a lock with --no-reentrant.
        ///
        /// Each permit is one line. The last lines may be permits that the first waiter
        /// waits for: the state is "waits" in the table and in JSON. Elsewhere a line on
        /// standard error tells their number.
        #[arg(long)]
        semaphore: bool,
        /// Print the table, even if the output is no terminal.
        #[arg(long)]
        table: bool,
    },

    /// Create a node and print its path.
    Create(Create),

    /// Print a node's data, as it is.
    #[command(after_help = "\
Examples:
  zk get /app/config
  zk get /app/config --json
  zk get /app/logo > logo.png")]
    Get {
        /// The node.
        path: String,
    },

    /// Replace a node's data, from the command line, standard input or a file.
    #[command(after_help = "\
Examples:
  zk set /app/config '{\"a\":2}'
  zk set /app/config '{\"a\":2}' --version 0
  zk set /app/state ready --create
  zk set /app/logo --file logo.png
  zk get /app/config | zk set /app/logo -")]
    #[command(mut_arg("acl", |acl| acl.requires("create")))]
    Set {
        /// The node.
        path: String,
        #[command(flatten)]
        data: NewData,
        /// Only if the data's version is this one.
        #[arg(long, value_name = "N")]
        version: Option<i32>,
        /// Create the node if it does not exist. Its parent must exist.
        #[arg(long, conflicts_with = "version")]
        create: bool,
        #[command(flatten)]
        acl: NewNodeAcl,
    },

    /// Delete a node.
    #[command(after_help = "\
Examples:
  zk delete /app/logo
  zk delete /app --recursive")]
    Delete {
        /// The node.
        path: String,
        /// Only if the data's version is this one.
        #[arg(long, value_name = "N")]
        version: Option<i32>,
        /// Everything below it too.
        #[arg(long)]
        recursive: bool,
    },

    /// Apply several operations in one transaction.
    Txn(Txn),

    /// Check whether a node exists: `true`, or `false` and exit status 1.
    #[command(after_help = "\
Example:
  zk exists /app/config")]
    Exists {
        /// The node.
        path: String,
    },

    /// List the names of a node's children, sorted.
    #[command(after_help = "\
Examples:
  zk ls /
  zk ls /app --recursive")]
    Ls {
        /// The node.
        path: String,
        /// List the paths of the node and of all nodes below it.
        #[arg(long, short = 'R')]
        recursive: bool,
    },

    /// Draw a node and the nodes below it.
    Tree(Tree),

    /// List the paths of the nodes below a node that match.
    Find(Find),

    /// List the ephemeral nodes below a node: the session, a tab, the path.
    Ephemerals(Ephemerals),

    /// Print the number of nodes below a node.
    #[command(after_help = "\
Example:
  zk count /app")]
    Count {
        /// The node.
        path: String,
    },

    /// Print a counter, or add to it.
    ///
    /// The number has 8 bytes, the highest first, as that of Curator's DistributedAtomicLong. Java
    /// services can use the same counter. A missing node is 0, and a change creates it.
    ///
    /// An addition never counts twice. If the connection is lost and the node does not show the
    /// outcome, the command fails, and says that the request may have been applied. With --once the
    /// command can be repeated: of all additions with one id, one counts.
    Counter(Counter),

    /// Wait until a barrier is removed; set it, or remove it.
    ///
    /// The barrier is set while its node exists, as that of Curator's DistributedBarrier. It outlives
    /// the command that sets it. Its removal ends the wait of all commands and Java services.
    Barrier(BarrierArgs),

    /// Print a node and all below it as JSON lines: data and access control lists.
    ///
    /// The last line has the number of nodes. zk import refuses an input with fewer or more of them.
    ///
    /// Ephemeral nodes are left out, and so is /zookeeper if / is exported without a chroot. Servers
    /// do not tell clients which nodes are containers or have a time to live. Nodes that change
    /// meanwhile appear as they are read. Servers hide the hashes of digests from clients that may
    /// not set the access control list of a node. Such a node ends the export, and so does a node that
    /// this client may not read: see --no-acl and --skip-unreadable.
    Export(Export),

    /// Create the nodes of JSON lines on standard input, as zk export prints them.
    ///
    /// A node that exists with the same data stays as it is, so an interrupted import can be
    /// repeated. A create whose answer is lost is repeated, too. A node that exists with other data
    /// ends the import; one with another access control list, or that this client may not read, is
    /// named and stays as it is. Up to a hundred nodes are created together: some nodes of later lines
    /// may exist when an import ends at a line. A line with
    /// "kind":"container", or with "kind":"ttl" and "ttl_ms", creates such a node.
    ///
    /// The list of a parent may deny the creation of its children. Such a parent has an entry more
    /// until the end of the import, with the permissions crwa: that of the presented credentials or,
    /// without any, of a one-time identity in a file. An import that fails or is interrupted leaves
    /// the entry, and its repetition removes it: with the same credentials, or with --resume FILE.
    /// Servers before 3.7 do not tell a client its identities: with credentials, the repetition
    /// needs --overwrite there. The lines must be in the order of zk export.
    Import(Import),

    /// Wait until the server has applied all that the leader has.
    ///
    /// A read of another client, whose write was confirmed before, is then visible on this
    /// server.
    #[command(after_help = "\
Example:
  zk sync && zk get /app/config")]
    Sync {
        /// Any node.
        #[arg(default_value = "/")]
        path: String,
    },

    /// Print the servers of the ensemble, as the ensemble knows them.
    ///
    /// A line has the id, the role, the address for clients if it is known, and the address
    /// for the other servers. A standalone server has none.
    #[command(after_help = "\
Example:
  zk config --json")]
    Config,

    /// Add servers to the ensemble, or remove them.
    Reconfig(Reconfig),

    /// Print the status of a node.
    #[command(after_help = "\
Example:
  zk stat /app/config")]
    Stat {
        /// The node.
        path: String,
    },

    /// Print a node's access control list, one SCHEME:ID:PERMS a line.
    ///
    /// Without the permission to set the list, the server shows x for the hash of a digest.
    #[command(after_help = "\
Example:
  zk getacl /app/config")]
    Getacl {
        /// The node.
        path: String,
    },

    /// Replace the access control list of a node, or of a node and all below it.
    #[command(after_help = "\
Examples:
  zk setacl /app/config world:anyone:r ip:127.0.0.1:cdrwa
  zk setacl /app world:anyone:cdrwa --recursive")]
    Setacl {
        /// The node.
        path: String,
        /// Permissions of one user, such as sasl:alice:cdrwa; see zk create --help. For a user with a
        /// password, zk digest prints the entry without the permissions.
        #[arg(required = true, value_name = "SCHEME:ID:PERMS", value_parser = acl::entry)]
        acl: Vec<Acl>,
        /// Only if the list's version (aversion) is this one.
        #[arg(long, value_name = "N", conflicts_with = "recursive")]
        version: Option<i32>,
        /// Also for all nodes below it, from the leaves up.
        ///
        /// /zookeeper is left out, if the node is / without a chroot.
        #[arg(long, short = 'R')]
        recursive: bool,
    },

    /// Print the identity of a user with a password: digest:USER:HASH.
    ///
    /// Access control lists name it so, with the permissions behind it. The hash is the SHA-1 of
    /// USER:PASSWORD in base64, and not that of the password alone. Servers can be set to another
    /// algorithm (DigestAuthenticationProvider.digestAlg). The command needs no server.
    Digest(Digest),

    /// Print the identities of this client on the server, one SCHEME:ID a line.
    ///
    /// Servers do not check the password of a digest: any password gives the same user.
    /// Access control lists name them: the address, the users of digests and of SASL, the
    /// subject of a client certificate. Servers before 3.7 reject the request.
    #[command(after_help = "\
Example:
  zk whoami")]
    Whoami,

    /// Print the events of a node, or of all nodes below it, until interrupted.
    Watch(WatchArgs),

    /// Show the locks below a path, live: holder, waiters, hand-offs.
    Top(Top),

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

    /// Measure what the ensemble can do.
    Bench(BenchArgs),

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

impl Command {
    /// Returns the name under which others see this client in the queue of a lock.
    pub(crate) fn client_name(&self) -> Option<String> {
        let (Self::Lock(Lock { company, command, .. })
        | Self::Elect(Elect { company, command, .. })
        | Self::Semaphore(Semaphore { company, command, .. })
        | Self::Multilock(Multilock { company, command, .. })) = self
        else {
            return None;
        };
        company.name.clone().or_else(|| {
            let program = Path::new(command.first()?).file_name()?;
            Some(program.to_string_lossy().into_owned())
        })
    }

    /// Prepares the command before it connects: reads its data, which standard input may delay, and
    /// checks what the definition of the command line cannot express.
    pub(crate) fn prepare(&mut self) -> Result<(), Failure> {
        match self {
            Self::Txn(txn) => txn.read(),
            Self::Reconfig(change) => change.check(),
            Self::Set { data, .. } => data.required().map(drop),
            Self::Create(create) => create.data.or_empty().map(drop),
            Self::Register(register) => register.data.or_empty().map(drop),
            _ => Ok(()),
        }
    }

    /// Checks the paths before any request is sent.
    pub(crate) fn check_path(&self) -> Result<(), PathError> {
        match self {
            Self::Lock(Lock { path, .. })
            | Self::Elect(Elect { path, .. })
            | Self::Register(Register { path, .. })
            | Self::Semaphore(Semaphore { path, .. })
            | Self::Revoke { node: path }
            | Self::Participants { path, .. }
            | Self::Get { path }
            | Self::Set { path, .. }
            | Self::Delete { path, .. }
            | Self::Exists { path }
            | Self::Ls { path, .. }
            | Self::Count { path }
            | Self::Counter(Counter { path, .. })
            | Self::Barrier(BarrierArgs { path, .. })
            | Self::Sync { path }
            | Self::Export(Export { path, .. })
            | Self::Import(Import { path, .. })
            | Self::Stat { path }
            | Self::Getacl { path }
            | Self::Setacl { path, .. }
            | Self::Top(Top { path, .. })
            | Self::Tree(Tree { path, .. })
            | Self::Find(Find { path, .. })
            | Self::Ephemerals(Ephemerals { path, .. })
            | Self::Bench(BenchArgs { path, .. })
            | Self::Watch(WatchArgs { path, .. }) => validate_path(path),
            Self::Multilock(Multilock { paths, .. }) => {
                paths.iter().try_for_each(|path| validate_path(path))
            }
            Self::Discover(discover) => discover.path().map(drop),
            // The appended number may be the whole name.
            Self::Create(Create { path, sequential: true, .. }) => {
                validate_path(&format!("{path}0"))
            }
            Self::Create(Create { path, .. }) => validate_path(path),
            // The operations are checked as they are read.
            Self::Txn(_) | Self::Reconfig(_) => Ok(()),
            Self::Whoami
            | Self::Config
            | Self::Digest(_)
            | Self::Doctor
            | Self::Man(_)
            | Self::Completions { .. }
            | Self::Server(_) => Ok(()),
        }
    }
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
    use clap::CommandFactory;

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
    fn arguments_after_the_dashes_are_the_command() {
        let line = ["zk", "lock", "/l", "--timeout", "3", "--", "sh", "-c", "x", "--json"];
        let args = Args::try_parse_from(line).unwrap();
        let Command::Lock(lock) = args.command else { panic!("{args:?}") };
        assert_eq!(lock.command, ["sh", "-c", "x", "--json"]);
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
