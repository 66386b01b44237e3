//! The command line.

use std::path::PathBuf;

use zk_recipes::session::Config;

use crate::failure::Failure;

pub(crate) const HELP: &str = "\
Sells a stock to more buyers than there are items: without a lock, with one, and
with one for which the buyers of a process queue locally.

Usage: flash_sale [OPTIONS]

  --connect HOST:PORT[,HOST:PORT...][/CHROOT]
                     the ZooKeeper ensemble to lock with; default $ZK_CONNECT,
                     or else a server in this process, in memory, that the
                     other processes reach over TCP
  --processes N      processes that the buyers are spread over; default 5
  --buyers N         buyers, all processes together; default 1500
  --items N          items in stock; default 100
  --help             this text

Exit code: 0 if all checks passed, 1 if one failed or a process broke,
64 on wrong use, 69 if the ensemble cannot be reached, 130 after Ctrl-C.
";

/// By default a ZooKeeper server accepts 60 connections from one address (`maxClientCnxns`); each
/// process needs one.
const PROCESSES_MAX: u32 = 50;

/// Each buyer lists the whole queue, so the work grows with the square of the number of buyers.
const BUYERS_MAX: u32 = 10_000;

const ITEMS_MAX: u32 = 1_000_000;

/// The first argument of the processes that this program starts. It is not for users.
pub(crate) const WORKER: &str = "--worker";

pub(crate) enum Command {
    Help,
    Sale(Plan),
    Worker(Job),
}

/// Parameters of a sale.
pub(crate) struct Plan {
    /// The ensemble to lock with; `None` starts a server for this sale.
    pub(crate) connect: Option<String>,
    pub(crate) processes: u32,
    pub(crate) buyers: u32,
    pub(crate) items: u32,
}

/// The task of one worker process.
#[derive(Clone)]
pub(crate) struct Job {
    /// SQLite file of the shop.
    pub(crate) shop: PathBuf,
    /// Number of the worker's first buyer.
    pub(crate) first_buyer: u32,
    pub(crate) buyers: u32,
    /// The lock to acquire before a purchase; `None` in the round without the lock.
    pub(crate) lock: Option<LockAt>,
}

/// Address of a lock.
#[derive(Clone)]
pub(crate) struct LockAt {
    pub(crate) connect: String,
    pub(crate) path: String,
    pub(crate) queue: Queue,
}

/// Where the buyers of one process queue for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Each buyer has a node in the ensemble.
    Ensemble,
    /// The buyers of a process share a node.
    Local,
}

impl Queue {
    /// Returns the name of a round with this queue.
    pub(crate) fn round(self) -> &'static str {
        match self {
            Self::Ensemble => "with the lock",
            Self::Local => "with a local queue",
        }
    }
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Command, Failure> {
    let mut connect = std::env::var("ZK_CONNECT").ok();
    let (mut processes, mut buyers, mut items) = (5, 1500, 100);
    while let Some(arg) = args.next() {
        // Accepts both `--name value` and `--name=value`.
        let (name, mut attached) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let mut value = || {
            let value = attached.take().or_else(|| args.next());
            value.ok_or_else(|| Failure::Usage(format!("{name} needs a value")))
        };
        match name {
            "--help" | "-h" => return Ok(Command::Help),
            WORKER => return worker(args).map(Command::Worker),
            "--connect" => connect = Some(value()?),
            "--processes" => processes = number(name, &value()?, PROCESSES_MAX)?,
            "--buyers" => buyers = number(name, &value()?, BUYERS_MAX)?,
            "--items" => items = number(name, &value()?, ITEMS_MAX)?,
            _ => return Err(Failure::Usage(format!("what is {arg:?}?"))),
        }
    }
    let connect = connect.filter(|connect| !connect.trim().is_empty());
    if let Some(connect) = &connect {
        let _is_valid = Config::new(connect).map_err(|error| Failure::Usage(error.to_string()))?;
    }
    Ok(Command::Sale(Plan { connect, processes: processes.min(buyers), buyers, items }))
}

fn number(name: &str, text: &str, max: u32) -> Result<u32, Failure> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(Failure::Usage(format!("{name} takes a number from 1 to {max}, not {text:?}"))),
    }
}

impl Job {
    /// Returns the arguments that start a worker for this job; [`worker`] parses them.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            WORKER.to_owned(),
            self.shop.to_string_lossy().into_owned(),
            self.first_buyer.to_string(),
            self.buyers.to_string(),
        ];
        if let Some(lock) = &self.lock {
            args.extend([lock.connect.clone(), lock.path.clone(), format!("{:?}", lock.queue)]);
        }
        args
    }
}

fn worker(mut args: impl Iterator<Item = String>) -> Result<Job, Failure> {
    let mut next = || args.next();
    let (Some(shop), Some(first_buyer), Some(buyers)) = (next(), next(), next()) else {
        return Err(Failure::Usage(format!("{WORKER} is not for users")));
    };
    Ok(Job {
        shop: shop.into(),
        first_buyer: number("first buyer", &first_buyer, BUYERS_MAX)?,
        buyers: number("buyers", &buyers, BUYERS_MAX)?,
        lock: match (next(), next(), next().as_deref()) {
            (Some(connect), Some(path), Some("Local")) => {
                Some(LockAt { connect, path, queue: Queue::Local })
            }
            (Some(connect), Some(path), _) => {
                Some(LockAt { connect, path, queue: Queue::Ensemble })
            }
            _ => None,
        },
    })
}
