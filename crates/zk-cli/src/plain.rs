//! The commands that need one session at a time.

use std::future::Future;
use std::pin::Pin;

use clap::{Args as ClapArgs, Subcommand};
use tokio::time::Instant;

use crate::acl::{self, SetAcl};
use crate::barrier::{self, BarrierArgs};
use crate::counter::{self, Counter};
use crate::discover::{self, Discover};
use crate::ensemble::{self, Reconfig};
use crate::export::{self, Export};
use crate::failure::Failure;
use crate::import::{self, Import};
use crate::nodes::{self, Create, Delete, Set};
use crate::participants::{self, Participants};
use crate::sessions::{Session, Sessions};
use crate::subtree::{self, Ephemerals, Find, Tree};
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
    Participants(Participants),

    /// Create a node and print its path.
    Create(Create),

    /// Print a node's data, as it is.
    #[command(after_help = "\
Examples:
  zk get /app/config
  zk get /app/config --json
  zk get /app/logo > logo.png")]
    Get(Node),

    /// Replace a node's data, from the command line, standard input or a file.
    Set(Set),

    /// Delete a node.
    Delete(Delete),

    /// Apply several operations in one transaction.
    Txn(Txn),

    /// Check whether a node exists: `true`, or `false` and exit status 1.
    #[command(after_help = "\
Example:
  zk exists /app/config")]
    Exists(Node),

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
    Count(Node),

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
    Stat(Node),

    /// Print a node's access control list, one SCHEME:ID:PERMS a line.
    ///
    /// Without the permission to set the list, the server shows x for the hash of a digest.
    #[command(after_help = "\
Example:
  zk getacl /app/config")]
    Getacl(Node),

    /// Replace the access control list of a node, or of a node and all below it.
    Setacl(SetAcl),

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

/// The argument of a command that has no other one.
#[derive(Debug, ClapArgs)]
pub(crate) struct Node {
    /// The node.
    path: String,
}

impl Plain {
    /// As [`InSession::prepare`](crate::args::InSession::prepare).
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        match self {
            Self::Discover(discover) => Ok(discover.path().map(drop)?),
            Self::Txn(txn) => txn.operations().map(drop),
            Self::Reconfig(change) => change.check(),
            Self::Set(set) => set.data.required().map(drop),
            Self::Create(create) => create.data.or_empty().map(drop),
            _ => Ok(()),
        }
    }
}

/// Work of a command. On the heap, so that there is not one future, and one function that polls it, with
/// the work of all commands: that makes the program larger.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

/// Runs the command, and repeats it in another session if its session has ended and nothing was
/// applied.
pub(crate) async fn run(mut sessions: Sessions, command: &Plain) -> Result<u8, Failure> {
    let deadline = match command {
        Plain::Barrier(args) => args.deadline(),
        _ => None,
    };
    loop {
        let session = sessions.open(deadline).await?;
        let result = operate(&mut sessions, &session, command, deadline).await;
        match &result {
            // The session is left to expire, and the ephemeral node with it.
            Ok(()) if matches!(command, Plain::Create(create) if create.ephemeral) => {
                drop(session.client.detach());
            }
            Err(failure) if failure.starts_over() => {
                sessions.count_answers();
                if sessions.may_go_on() {
                    continue;
                }
                session.client.close().await;
            }
            _ => session.client.close().await,
        }
        return result.map(|()| 0);
    }
}

fn operate<'a>(
    sessions: &'a mut Sessions,
    session: &'a Session,
    command: &'a Plain,
    deadline: Option<Instant>,
) -> Work<'a, ()> {
    match command {
        Plain::Discover(args) => Box::pin(discover::list(session, args)),
        Plain::Revoke { node } => Box::pin(nodes::revoke(sessions, session, node)),
        Plain::Participants(wanted) => Box::pin(participants::run(sessions, session, wanted)),
        Plain::Create(create) => Box::pin(nodes::create(session, create)),
        Plain::Get(node) => Box::pin(nodes::get(session, &node.path)),
        Plain::Set(set) => Box::pin(nodes::set(session, set)),
        Plain::Delete(delete) => Box::pin(nodes::delete(session, delete)),
        Plain::Txn(txn) => Box::pin(txn::run(session, txn)),
        Plain::Exists(node) => Box::pin(nodes::exists(session, &node.path)),
        Plain::Ls { path, recursive: false } => Box::pin(nodes::ls(session, path)),
        Plain::Ls { path, recursive: true } => Box::pin(subtree::ls(session, path)),
        Plain::Tree(tree) => Box::pin(subtree::tree(session, tree)),
        Plain::Find(find) => Box::pin(subtree::find(session, find)),
        Plain::Ephemerals(wanted) => Box::pin(subtree::ephemerals(session, wanted)),
        Plain::Count(node) => Box::pin(subtree::count(session, &node.path)),
        Plain::Counter(counter) => Box::pin(counter::run(sessions, session, counter)),
        Plain::Barrier(args) => Box::pin(barrier::run(sessions, session, args, deadline)),
        Plain::Export(wanted) => {
            Box::pin(async { export::run(session, wanted).await.map_err(Failure::of_stream) })
        }
        Plain::Import(wanted) => {
            Box::pin(async { import::run(session, wanted).await.map_err(Failure::of_stream) })
        }
        Plain::Sync { path } => Box::pin(nodes::sync(session, path)),
        Plain::Config => Box::pin(ensemble::config(session)),
        Plain::Reconfig(change) => Box::pin(ensemble::reconfig(session, change)),
        Plain::Stat(node) => Box::pin(nodes::stat(session, &node.path)),
        Plain::Getacl(node) => Box::pin(acl::get(session, &node.path)),
        Plain::Setacl(wanted) => Box::pin(acl::set(session, wanted)),
        Plain::Whoami => Box::pin(acl::who_am_i(session)),
    }
}
