//! The commands that need one session at a time.

use std::future::Future;
use std::pin::Pin;

use clap::Subcommand;
use tokio::time::Instant;
use zk_recipes::session::{Acl, Client, PathError, Retry, validate_path};

use crate::acl::{self, NewNodeAcl};
use crate::barrier::{self, BarrierArgs};
use crate::counter::{self, Counter};
use crate::data::NewData;
use crate::discover::{self, Discover};
use crate::ensemble::{self, Reconfig};
use crate::export::{self, Export};
use crate::failure::Failure;
use crate::find::{self, Ephemerals, Find};
use crate::import::{self, Import};
use crate::nodes::{self, Create};
use crate::output::Output;
use crate::participants;
use crate::sessions::Sessions;
use crate::subtree;
use crate::tree::{self, Tree};
use crate::txn::{self, Txn};

/// A command that needs one session at a time, and may be repeated in another one.
#[derive(Debug, Subcommand)]
pub(crate) enum Plain {
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

    /// Print the identities of this client on the server, one SCHEME:ID a line.
    ///
    /// Servers do not check the password of a digest: any password gives the same user.
    /// Access control lists name them: the address, the users of digests and of SASL, the
    /// subject of a client certificate. Servers before 3.7 reject the request.
    #[command(after_help = "\
Example:
  zk whoami")]
    Whoami,
}

impl Plain {
    /// As [`Command::prepare`](crate::args::Command::prepare).
    pub(crate) fn prepare(&mut self) -> Result<(), Failure> {
        match self {
            Self::Txn(txn) => txn.read(),
            Self::Reconfig(change) => change.check(),
            Self::Set { data, .. } => data.required().map(drop),
            Self::Create(create) => create.data.or_empty().map(drop),
            _ => Ok(()),
        }
    }

    /// Checks the paths before any request is sent.
    pub(crate) fn check_path(&self) -> Result<(), PathError> {
        match self {
            Self::Revoke { node: path }
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
            | Self::Tree(Tree { path, .. })
            | Self::Find(Find { path, .. })
            | Self::Ephemerals(Ephemerals { path, .. }) => validate_path(path),
            Self::Discover(discover) => discover.path().map(drop),
            // The appended number may be the whole name.
            Self::Create(Create { path, sequential: true, .. }) => {
                validate_path(&format!("{path}0"))
            }
            Self::Create(Create { path, .. }) => validate_path(path),
            // The operations are checked as they are read.
            Self::Txn(_) | Self::Reconfig(_) | Self::Whoami | Self::Config => Ok(()),
        }
    }
}

/// Work of a command. On the heap, so that there is not one future, and one function that polls it, with
/// the work of all commands: that makes the program larger.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

/// Runs the command, and repeats it in another session if its session has ended and nothing was
/// applied.
pub(crate) async fn run(
    mut sessions: Sessions,
    command: &Plain,
    output: Output,
) -> Result<u8, Failure> {
    let deadline = match command {
        Plain::Barrier(args) => args.deadline(),
        _ => None,
    };
    loop {
        let client = sessions.open(deadline).await?;
        let result = {
            let retry = Sessions::retry(&client);
            operate(&mut sessions, &client, &retry, command, deadline, output).await
        };
        match &result {
            // The session is left to expire, and the ephemeral node with it.
            Ok(()) if matches!(command, Plain::Create(create) if create.ephemeral) => {
                drop(client.detach());
            }
            Err(failure) if failure.starts_over() => {
                sessions.count_answers();
                if sessions.may_go_on() {
                    continue;
                }
                client.close().await;
            }
            _ => client.close().await,
        }
        return result.map(|()| 0);
    }
}

fn operate<'a>(
    sessions: &'a mut Sessions,
    client: &'a Client,
    retry: &'a Retry,
    command: &'a Plain,
    deadline: Option<Instant>,
    output: Output,
) -> Work<'a, ()> {
    match command {
        Plain::Participants { path, semaphore, table } => Box::pin(async move {
            let listed = sessions.run_connected(participants::list(client, path, *semaphore));
            let listed = listed.await??;
            if listed.is_empty() {
                participants::print_why_empty(retry, path, *semaphore, output).await?;
            }
            participants::print(&listed, *semaphore, *table, output)
        }),
        Plain::Revoke { node } => Box::pin(nodes::revoke(sessions, client, node, output)),
        Plain::Create(create) => Box::pin(nodes::create(client, retry, create, output)),
        Plain::Get { path } => Box::pin(nodes::get(retry, path, output)),
        Plain::Set { path, data, acl, create: true, .. } => {
            Box::pin(nodes::set_or_create(retry, path, data, acl, output))
        }
        Plain::Set { path, data, version, create: false, .. } => {
            Box::pin(nodes::set(retry, path, data, *version, output))
        }
        Plain::Delete { path, version, recursive: false } => {
            Box::pin(nodes::delete(retry, path, *version, output))
        }
        Plain::Delete { path, version, recursive: true } => {
            Box::pin(nodes::delete_recursive(client, retry, path, *version, output))
        }
        Plain::Exists { path } => Box::pin(nodes::exists(retry, path, output)),
        Plain::Ls { path, recursive: false } => Box::pin(nodes::ls(retry, path, output)),
        Plain::Ls { path, recursive: true } => {
            Box::pin(subtree::ls(client, retry, path, sessions.presented(), output))
        }
        Plain::Tree(tree) => Box::pin(tree::run(client, retry, tree, sessions.presented(), output)),
        Plain::Find(find) => {
            Box::pin(find::find(client, retry, find, sessions.presented(), output))
        }
        Plain::Ephemerals(wanted) => {
            Box::pin(find::ephemerals(client, retry, wanted, sessions.presented(), output))
        }
        Plain::Count { path } => {
            Box::pin(subtree::count(client, retry, path, sessions.presented(), output))
        }
        Plain::Counter(args) => Box::pin(counter::run(sessions, client, retry, args, output)),
        Plain::Barrier(args) => Box::pin(barrier::run(sessions, client, args, deadline, output)),
        Plain::Discover(args) => Box::pin(discover::list(client, retry, args, output)),
        Plain::Export(wanted) => {
            let work = export::run(client, retry, wanted, sessions.servers(), output);
            Box::pin(async { work.await.map_err(Failure::of_stream) })
        }
        Plain::Import(wanted) => {
            let is_in_the_clear = sessions.is_in_the_clear();
            let has_identity = sessions.has_identity();
            let work = import::run(client, wanted, has_identity, is_in_the_clear, output);
            Box::pin(async { work.await.map_err(Failure::of_stream) })
        }
        Plain::Sync { path } => Box::pin(nodes::sync(retry, path, output)),
        Plain::Config => Box::pin(ensemble::config(retry, output)),
        Plain::Reconfig(change) => Box::pin(ensemble::reconfig(client, change, output)),
        Plain::Txn(txn) => Box::pin(txn::run(retry, txn, output)),
        Plain::Stat { path } => Box::pin(nodes::stat(retry, path, output)),
        Plain::Getacl { path } => Box::pin(acl::get(retry, path, output)),
        Plain::Setacl { path, acl, version, recursive: false } => {
            Box::pin(acl::set(retry, path, acl, *version, output))
        }
        Plain::Setacl { path, acl, recursive: true, .. } => {
            let servers = sessions.servers();
            Box::pin(acl::set_recursive(client, retry, path, acl, servers, output))
        }
        Plain::Whoami => Box::pin(acl::who_am_i(retry, output)),
    }
}
