//! The commands that open sessions.
//!
//! A new command has its options and a function in a file of its own, and a line in one of the tables here.
//! The function gets a session and the options, and prints its answer to the output of the session.

use std::future::Future;
use std::pin::Pin;

use clap::Subcommand;

use crate::prelude::{Result, Session, Sessions};

/// Declares commands: the help of each, its options, and the function that runs it.
macro_rules! commands {
    (
        $(#[$about:meta])*
        enum $commands:ident($context:ty) -> $value:ty {
            $($(#[$help:meta])* $name:ident($options:ty) => $run:path,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Subcommand)]
        pub(crate) enum $commands {
            $($(#[$help])* $name($options),)*
        }

        impl $commands {
            pub(crate) fn run<'a>(&'a self, context: $context) -> Work<'a, $value> {
                match self {
                    $(Self::$name(options) => Box::pin($run(context, options)),)*
                }
            }
        }
    };
}

commands! {
    /// A command that opens sessions.
    enum InSession(Sessions) -> u8 {
        /// Run a command while holding a lock.
        Lock(crate::lock_args::Lock) => crate::lock::run,

        /// Run a command while this candidate leads an election.
        Elect(crate::lock_args::Elect) => crate::lock::run,

        /// Run a command while holding permits of a semaphore.
        Semaphore(crate::lock_args::Semaphore) => crate::lock::run,

        /// Run a command while holding several locks.
        Multilock(crate::lock_args::Multilock) => crate::lock::run,

        /// Keep a node while a command runs, over lost sessions.
        Register(crate::register::Register) => crate::register::run,

        /// List the services below a path, or the instances of one, or follow them.
        Discover(crate::discover::Discover) => crate::discover::run,

        #[command(flatten)]
        Plain(Plain) => Plain::run_with,

        /// Print the events of a node, or of all nodes below it, until interrupted.
        Watch(crate::watch::WatchArgs) => crate::watch::run,

        /// Show the locks below a path, live: holder, waiters, hand-offs.
        Top(crate::top::Top) => crate::top::run,

        /// Measure what the ensemble can do.
        Bench(crate::bench::BenchArgs) => crate::bench::run,
    }
}

commands! {
    /// A command that needs one session at a time, and may be repeated in another one.
    enum Plain(&'a Session) -> () {
        /// Ask the holder of a node to release its lock or permits.
        ///
        /// A holder that reacts, such as zk lock --revocable, ends its work and releases the
        /// lock; others ignore the request. Java services send and receive the same request.
        #[command(after_help = "\
Example:
  zk revoke $(zk participants /locks/report | head -1 | cut -f 1)")]
        Revoke(crate::nodes::Revoke) => crate::nodes::revoke,

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
        Participants(crate::participants::Participants) => crate::participants::run,

        /// Create a node and print its path.
        Create(crate::nodes::Create) => crate::nodes::create,

        /// Print a node's data, as it is.
        #[command(after_help = "\
Examples:
  zk get /app/config
  zk get /app/config --json
  zk get /app/logo > logo.png")]
        Get(crate::node_arg::Node) => crate::nodes::get,

        /// Replace a node's data, from the command line, standard input or a file.
        Set(crate::nodes::Set) => crate::nodes::set,

        /// Delete a node.
        Delete(crate::nodes::Delete) => crate::nodes::delete,

        /// Apply several operations in one transaction.
        Txn(crate::txn::Txn) => crate::txn::run,

        /// Check whether a node exists: `true`, or `false` and exit status 1.
        #[command(after_help = "\
Example:
  zk exists /app/config")]
        Exists(crate::node_arg::Node) => crate::nodes::exists,

        /// List the names of a node's children, sorted.
        #[command(after_help = "\
Examples:
  zk ls /
  zk ls /app --recursive")]
        Ls(crate::nodes::Ls) => crate::nodes::ls,

        /// Draw a node and the nodes below it.
        Tree(crate::subtree::Tree) => crate::subtree::tree,

        /// List the paths of the nodes below a node that match.
        Find(crate::subtree::Find) => crate::subtree::find,

        /// List the ephemeral nodes below a node: the session, a tab, the path.
        Ephemerals(crate::subtree::Ephemerals) => crate::subtree::ephemerals,

        /// Print the number of nodes below a node.
        #[command(after_help = "\
Example:
  zk count /app")]
        Count(crate::node_arg::Node) => crate::subtree::count,

        /// Print a counter, or add to it.
        ///
        /// The number has 8 bytes, the highest first, as that of Curator's DistributedAtomicLong. Java
        /// services can use the same counter. A missing node is 0, and a change creates it.
        ///
        /// An addition never counts twice. If the connection is lost and the node does not show the
        /// outcome, the command fails, and says that the request may have been applied. With --once the
        /// command can be repeated: of all additions with one id, one counts.
        Counter(crate::counter::Counter) => crate::counter::run,

        /// Wait until a barrier is removed; set it, or remove it.
        ///
        /// The barrier is set while its node exists, as that of Curator's DistributedBarrier. It outlives
        /// the command that sets it. Its removal ends the wait of all commands and Java services.
        Barrier(crate::barrier::BarrierArgs) => crate::barrier::run,

        /// Print a node and all below it as JSON lines: data and access control lists.
        ///
        /// The last line has the number of nodes. zk import refuses an input with fewer or more of them.
        ///
        /// Ephemeral nodes are left out, and so is /zookeeper if / is exported without a chroot. Servers
        /// do not tell clients which nodes are containers or have a time to live. Nodes that change
        /// meanwhile appear as they are read. Servers hide the hashes of digests from clients that may
        /// not set the access control list of a node. Such a node ends the export, and so does a node that
        /// this client may not read: see --no-acl and --skip-unreadable.
        Export(crate::export::Export) => crate::export::run,

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
        Import(crate::import::Import) => crate::import::run,

        /// Wait until the server has applied all that the leader has.
        ///
        /// A read of another client, whose write was confirmed before, is then visible on this
        /// server.
        #[command(after_help = "\
Example:
  zk sync && zk get /app/config")]
        Sync(crate::nodes::Sync) => crate::nodes::sync,

        /// Print the servers of the ensemble, as the ensemble knows them.
        ///
        /// A line has the id, the role, the address for clients if it is known, and the address
        /// for the other servers. A standalone server has none.
        #[command(after_help = "\
Example:
  zk config --json")]
        Config(crate::node_arg::Nothing) => crate::ensemble::config,

        /// Add servers to the ensemble, or remove them.
        Reconfig(crate::ensemble::Reconfig) => crate::ensemble::reconfig,

        /// Print the status of a node.
        #[command(after_help = "\
Example:
  zk stat /app/config")]
        Stat(crate::node_arg::Node) => crate::nodes::stat,

        /// Print a node's access control list, one SCHEME:ID:PERMS a line.
        ///
        /// Without the permission to set the list, the server shows x for the hash of a digest.
        #[command(after_help = "\
Example:
  zk getacl /app/config")]
        Getacl(crate::node_arg::Node) => crate::acl::get,

        /// Replace the access control list of a node, or of a node and all below it.
        Setacl(crate::acl::SetAcl) => crate::acl::set,

        /// Print the identities of this client on the server, one SCHEME:ID a line.
        ///
        /// Servers do not check the password of a digest: any password gives the same user.
        /// Access control lists name them: the address, the users of digests and of SASL, the
        /// subject of a client certificate. Servers before 3.7 reject the request.
        #[command(after_help = "\
Example:
  zk whoami")]
        Whoami(crate::node_arg::Nothing) => crate::acl::who_am_i,
    }
}

impl Plain {
    /// Prepares the command before it connects: reads its data, which standard input may delay, and
    /// checks what the definition of the command line cannot express.
    fn prepare(&self) -> Result<()> {
        match self {
            Self::Txn(txn) => txn.operations().map(drop),
            Self::Reconfig(change) => change.check(),
            Self::Set(set) => set.data.required().map(drop),
            Self::Create(create) => create.data.or_empty().map(drop),
            _ => Ok(()),
        }
    }

    async fn run_with(mut sessions: Sessions, command: &Self) -> Result<u8> {
        command.prepare()?;
        let deadline = match command {
            Self::Barrier(args) => args.deadline(),
            _ => None,
        };
        sessions.run_to_end(deadline, async |session| command.run(session).await).await
    }
}

/// Work of a command. On the heap, so that there is not one future, and one function that polls it, with
/// the work of all commands: that makes the program larger.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;
