//! The arguments of `zk lock`, `zk elect`, `zk semaphore` and `zk multilock`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::slice;

use zk_recipes::limits::PERMITS_AT_ONCE_MAX;

use crate::acl::NewNodeAcl;
use crate::child::End;
use crate::prelude::{ClapArgs, Duration, Failure, Output, Result};
use crate::time_arg::seconds;

/// The `lock` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
If zk itself is killed (SIGKILL) or stopped (SIGSTOP), the command runs on without the lock.

The command's environment has ZK_LOCK_NODE, the path of the holder's node, and ZK_FENCING_TOKEN, a \
number larger than that of every holder before: give it along with every write to what the lock \
protects, and have a smaller one refused there. Nothing else is safe from a holder that was paused.

When the lock is lost while the command runs, the command gets SIGTERM, then SIGKILL after 5 s, and \
the exit status is 74. The next holder may run before that SIGKILL; see --kill-after. Without an answer \
from the servers, zk then waits to delete its node, for 4/3 of the session timeout at most; SIGINT, \
SIGTERM and SIGQUIT end that.

SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the command, and the lock is held \
until it has ended. For all other signals that would end zk, the command gets SIGTERM. Signals reach its \
process group. On a terminal, where a process group of its own could not read, they reach only the command \
itself. A signal that zk inherits as ignored, such as SIGHUP with nohup, is ignored by the command, too, \
except for SIGINT and SIGTERM.

The lock is held until all processes have ended that the command has started, in whatever process group, \
and a loss ends them all. Standard error names those that are left a second after the command has ended. \
SIGINT, SIGQUIT and SIGTERM end them, too, by SIGTERM; the exit status is that of the signal then. On \
systems other than Linux, zk knows only the process group of the command, and on a terminal only the \
command itself.

Examples:
  zk lock /locks/backup -- ./backup.sh
  zk lock /locks/backup --timeout 5 -- ./backup.sh || echo 'it is held'
  zk lock /stock --read -- ./report.sh")]
pub(crate) struct Lock {
    /// The path of the lock; it is created if it does not exist.
    path: String,

    /// Time limit, after which the exit status is 75; 0 for one attempt.
    ///
    /// It includes connecting. If the ensemble answers no request in that time, the exit
    /// status is 69. One attempt takes at most 10 s.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Acquire the read side of a read-write lock, shared with other readers.
    ///
    /// Java services know the lock as InterProcessReadWriteLock; every user of the
    /// path passes --read or --write. Readers wait for the writers ahead of them. Their
    /// tokens are larger than those of earlier writers, in no order among each other.
    #[arg(long, conflicts_with_all = ["write", "no_reentrant"])]
    read: bool,

    /// Acquire the write side of a read-write lock, alone.
    ///
    /// As --read, but the writer waits for everybody ahead of it.
    #[arg(long, conflicts_with = "no_reentrant")]
    write: bool,

    /// Use the lock that Java services know as InterProcessSemaphoreMutex.
    ///
    /// It uses other nodes than a lock without this option, so one path is for one of
    /// them: the other one is refused, with exit status 78. participants --semaphore
    /// lists the holders.
    #[arg(long)]
    no_reentrant: bool,

    #[command(flatten)]
    pub(crate) contender: Contender,

    /// Release the lock on a revocation request: end the command as if the lock were
    /// lost, with exit status 74.
    #[arg(long)]
    revocable: bool,
}

/// The `elect` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Candidates lead in the order in which they stood, one at a time. The command runs while this candidate \
leads. When the leadership is lost, the command gets SIGTERM, then SIGKILL after 5 s, and the candidate \
stands again, unless SIGINT, SIGTERM or SIGQUIT has arrived. The next candidate may lead before that \
SIGKILL; see --kill-after. When the command ends by itself, the next candidate leads, and the exit \
status is that of the command, or 74 if the leadership was lost before its release. It is 69 if no first \
session can be opened; later the candidate waits without a limit for the ensemble. The environment and \
the signals of the command are those of zk lock; see zk lock --help. A candidate that does not lead ends \
at each of these signals.

zk participants lists the leader and the other candidates. Java services use the same nodes with \
LeaderLatch. The id of this candidate is the NAME. Without one, it is the address, host, process and \
command, with spaces in between.

Example:
  zk elect /election/scheduler --name $(hostname) -- ./scheduler")]
pub(crate) struct Elect {
    /// The path of the election; it is created if it does not exist.
    path: String,

    #[command(flatten)]
    contender: Contender,
}

/// A contender, and the command that it runs.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Contender {
    /// The name that others see with zk participants; the name of CMD by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Do not refuse a path that another kind of lock uses, with exit status 78.
    ///
    /// A mutex, a read-write lock and a semaphore on one path do not exclude each other:
    /// with this option they can be held at the same time.
    #[arg(long)]
    pub(crate) allow_foreign_nodes: bool,

    /// Time from SIGTERM to SIGKILL when the lock is lost; 5 by default, 0 for SIGKILL at once.
    ///
    /// The next holder may run in this time. SIGTERM comes a twelfth of the session timeout
    /// before the ensemble can give the lock away. With a shorter time here, the command
    /// ends before the next holder begins. Two exceptions: a pause of zk or its machine,
    /// and a node that somebody deletes.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) kill_after: Option<Duration>,

    #[command(flatten)]
    pub(crate) leftovers: Leftovers,

    #[command(flatten)]
    pub(crate) acl: NewNodeAcl,

    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Option for the processes that the command leaves in the background.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct Leftovers {
    /// Do not wait for processes that CMD leaves in the background when it ends: for daemons.
    ///
    /// Without this option, the lock is held, or the node kept, until all that CMD has
    /// started has ended. A note on standard error names what zk waits for.
    #[arg(long)]
    no_wait: bool,
}

/// The `semaphore` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
All who use the semaphore should say the same MAX: ZooKeeper does not know it, and nobody notices a \
difference. The largest MAX is the number of permits that are held at once. Permits are given to \
those who came first, and N at once to one at a time, so nobody waits for somebody who waits.

The command's environment has ZK_LOCK_NODE, the path of the permit's node, and ZK_FENCING_TOKEN, its \
number. With --take N both have N values, in the same order, with commas in between. Tokens grow in \
the order in which permits are taken, but holders are at work at the same time: only if all take all \
the permits may a resource refuse a token for being smaller than another.

When a permit is lost while the command runs, when signals arrive, and for the exit status: as with \
zk lock; see zk lock --help.

Example:
  zk semaphore /licences --permits 3 -- ./solve.sh")]
pub(crate) struct Semaphore {
    /// The path of the semaphore; it is created if it does not exist.
    path: String,

    /// Number of permits of the semaphore.
    #[arg(long, value_name = "MAX", value_parser = clap::value_parser!(u32).range(1..))]
    permits: u32,

    /// Number of permits to acquire, all of them or none.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(PERMITS_AT_ONCE_MAX))
    )]
    take: u32,

    /// Time limit, after which the exit status is 75; 0 for one attempt.
    ///
    /// It includes connecting. If the ensemble answers no request in that time, the exit
    /// status is 69. One attempt takes at most 10 s.
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,

    #[command(flatten)]
    contender: Contender,
}

/// The `multilock` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The locks are those of zk lock. They are taken in the order of their paths, whatever the order here, \
so that two of these commands cannot wait for each other; --timeout is for all of them together. One \
that is lost is the loss of all.

The command's environment has ZK_LOCK_NODE, the paths of the nodes, and ZK_FENCING_TOKEN, their \
tokens, with commas in between, in the order of the paths on the command line. Give each resource \
the token of the lock that protects it.

When a lock is lost while the command runs, when signals arrive, and for the exit status: as with \
zk lock; see zk lock --help.

Example:
  zk multilock /locks/from /locks/to -- ./transfer.sh")]
pub(crate) struct Multilock {
    /// The paths of the locks, each once; they are created if they do not exist.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,

    /// Time limit, after which the exit status is 75; 0 for one attempt.
    ///
    /// It includes connecting. If the ensemble answers no request in that time, the exit
    /// status is 69. One attempt at all locks takes at most 10 s.
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,

    #[command(flatten)]
    contender: Contender,
}

impl Contender {
    fn task(&self, kind: Kind, paths: &[String], timeout: Option<Duration>) -> Task {
        let (paths, contender) = (paths.to_vec(), self.clone());
        Task { kind, paths, timeout, revocable: false, stands_again: false, contender }
    }

    /// Returns the name under which others see this client in the queue of a lock.
    pub(crate) fn client_name(&self) -> Option<String> {
        self.name.clone().or_else(|| {
            let program = Path::new(self.command.first()?).file_name()?;
            Some(program.to_string_lossy().into_owned())
        })
    }
}

impl Leftovers {
    /// Returns when the command has ended.
    pub(crate) fn end(self, output: Output) -> End {
        if self.no_wait { End::FirstProcess } else { End::AllProcesses(output) }
    }
}

/// The options of a command that runs another one under a lock.
pub(crate) trait Contend {
    fn task(&self) -> Result<Task>;
}

impl Contend for Lock {
    fn task(&self) -> Result<Task> {
        let kind = match (self.read, self.write, self.no_reentrant) {
            (true, _, _) => Kind::Read,
            (_, true, _) => Kind::Write,
            (_, _, true) => Kind::SemaphoreMutex,
            (false, false, false) => Kind::Mutex,
        };
        let task = self.contender.task(kind, slice::from_ref(&self.path), self.timeout);
        Ok(Task { revocable: self.revocable, ..task })
    }
}

impl Contend for Elect {
    fn task(&self) -> Result<Task> {
        let task = self.contender.task(Kind::Leadership, slice::from_ref(&self.path), None);
        Ok(Task { stands_again: true, ..task })
    }
}

impl Contend for Semaphore {
    fn task(&self) -> Result<Task> {
        let (take, max) = (self.take, self.permits);
        if take > max {
            let why = format!("--take {take} is more than the --permits {max} there are");
            return Err(Failure::usage(why));
        }
        let kind = Kind::Permits { max, take };
        Ok(self.contender.task(kind, slice::from_ref(&self.path), self.timeout))
    }
}

impl Contend for Multilock {
    fn task(&self) -> Result<Task> {
        let mut seen = HashSet::new();
        if let Some(path) = self.paths.iter().find(|path| !seen.insert(*path)) {
            let why = format!("{path} is given twice; it would wait for itself");
            return Err(Failure::usage(why));
        }
        Ok(self.contender.task(Kind::All, &self.paths, self.timeout))
    }
}

/// A command, and the lock that it runs under.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// The paths of the locks, each once. There are several with [`Kind::All`] only.
    pub(crate) paths: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    /// Whether a revocation request ends the command.
    pub(crate) revocable: bool,
    /// Whether a loss is followed by another acquisition.
    pub(crate) stands_again: bool,
    pub(crate) contender: Contender,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    SemaphoreMutex,
    /// The leadership of an election.
    Leadership,
    Permits {
        max: u32,
        take: u32,
    },
    /// Mutexes.
    All,
}

impl Task {
    /// Whether the lock is acquired at once or not at all.
    pub(crate) fn is_single_try(&self) -> bool {
        self.timeout == Some(Duration::ZERO)
    }

    /// Returns the path, unless there are several.
    pub(crate) fn only_path(&self) -> Option<&str> {
        if self.kind == Kind::All { None } else { self.paths.first().map(String::as_str) }
    }

    pub(crate) fn is_semaphore(&self) -> bool {
        matches!(self.kind, Kind::SemaphoreMutex | Kind::Permits { .. })
    }

    pub(crate) fn not_in_time(&self) -> String {
        let paths = self.paths.join(", ");
        match self.kind {
            Kind::Mutex | Kind::Read | Kind::Write | Kind::SemaphoreMutex => {
                format!("{paths}: the lock was not acquired in time")
            }
            Kind::Leadership => format!("{paths}: another client leads"),
            Kind::Permits { take: 1, .. } => format!("{paths}: no permit was acquired in time"),
            Kind::Permits { take, .. } => {
                format!("{paths}: {take} permits were not acquired in time")
            }
            Kind::All => format!("{paths}: the locks were not acquired in time"),
        }
    }
}
