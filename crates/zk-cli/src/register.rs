//! `zk register`, which keeps a node while a command runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::sync::watch;
use tokio::time::timeout;
use zk_coordination::{NodeState, PersistentNode};
use zk_recipes::session::Zxid;

use crate::acl::NewNodeAcl;
use crate::child::Child;
use crate::data::NewData;
use crate::lock_args::Leftovers;
use crate::prelude::{ClapArgs, Duration, Failure, Instant, Output, Result, Sessions, clock};
use crate::sessions::{Context, until};
use crate::signals::Signals;
use crate::state_file::StateFile;
use crate::time_arg::seconds;

/// The `register` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The node is ephemeral. It exists before the command starts, and is deleted after the command and all that \
it has started have ended. While the command runs, the node is created again whenever it is lost: when its \
session has expired, and when somebody deletes it. The command runs on meanwhile, and lines on standard \
error tell of it. Missing parents are created as containers.

If another process has a node at the path, zk register waits until that node is gone, and does not change \
it. A process that is killed leaves its node until its session expires. With --state-file, the next run \
recognises that node, and replaces it at once. Each process needs a file of its own. If the file cannot \
be read or written, zk register says so, and goes on.

A zk register that is killed (SIGKILL) cannot end its command, which runs on. A restart at once then runs \
a second copy of the command beside it.

If the servers reject the credentials meanwhile, the node goes with its session: zk register says so, and \
its exit status is 1 even if the command succeeds.

The command's environment has ZK_NODE, the path of the node. Its signals are those of zk lock. The exit \
status is that of the command, 75 if the node could not be created in time, or 1 if the server rejects \
the creation.

Java services use the same node with PersistentNode; below a group, it is a GroupMember.

Example:
  zk register /services/web/$(hostname) 10.0.0.7:8080 -- ./serve.sh")]
pub(crate) struct Register {
    /// The path of the node.
    path: String,

    #[command(flatten)]
    data: NewData,

    /// Time limit for the creation of the node, after which the exit status is 75.
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,

    /// File that keeps the id of the session. After a crash, the next run replaces the node of this one.
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,

    #[command(flatten)]
    acl: NewNodeAcl,

    #[command(flatten)]
    leftovers: Leftovers,

    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) async fn run(mut sessions: Sessions, register: &Register) -> Result<u8> {
    let data = register.data.or_empty()?;
    let output = sessions.context.output;
    let mut state = match &register.state_file {
        Some(path) => StateFile::open(path, output)?,
        None => None,
    };
    sessions.wait_for_servers();
    sessions.keep_trying();
    let mut signals = Signals::new()?;
    let deadline = register.timeout.map(|limit| clock() + limit);
    let manager = signals.unless_interrupted(sessions.open_manager(deadline)).await??;
    let builder = PersistentNode::builder(&manager, &register.path);
    let builder = builder.data(data).acl(register.acl.entries());
    let previous = state.as_ref().and_then(|file| file.session);
    let builder = previous.into_iter().fold(builder, |builder, id| builder.previous_session(id));
    let node = builder.start()?;
    let context = &sessions.context;
    let ended = keep(&node, register, &mut state, deadline, &mut signals, context).await;
    let session_timeout = manager.client().session_timeout();
    tokio::select! {
        // The server deletes the node after this time anyway.
        closed = timeout(session_timeout, node.close()) => match (closed, &state) {
            (Ok(Ok(())), Some(state)) => state.clear(),
            // It is reported already.
            (Ok(Err(error)), _) if matches!(error.state(), NodeState::Stopped { .. }) => {}
            (Ok(Err(error)), _) => output.note(&error.to_string()),
            _ => {}
        },
        () = signals.next_ending() => {}
    }
    sessions.close().await;
    ended
}

/// Runs the command once the node exists, and returns its exit status.
async fn keep(
    node: &PersistentNode,
    register: &Register,
    file: &mut Option<StateFile>,
    deadline: Option<Instant>,
    signals: &mut Signals,
    Context { identity, output, .. }: &Context,
) -> Result<u8> {
    let output = *output;
    let mut states = node.subscribe();
    let created = created(&mut states, &register.path, deadline, output);
    signals.unless_interrupted(created).await??;
    let mut creation = creation(&states.borrow_and_update());
    store_session(file, &states.borrow());
    let environment = [("ZK_NODE", register.path.as_str())];
    let end = register.leftovers.end(output);
    let mut child = Child::spawn(&register.command, environment, Stdio::inherit(), end)?;
    let mut stopped = None;
    loop {
        tokio::select! {
            // A terminal sends Ctrl-C to both. A signal that is read later would end the wait for the
            // deletion, so signals come first.
            biased;
            signal = signals.next() => child.signal(signal),
            code = child.wait() => return match (code, stopped) {
                (Ok(0), Some(failure)) => Err(failure),
                (code, _) => code,
            },
            Ok(()) = states.changed() => {
                let state = states.borrow_and_update().clone();
                if let NodeState::Stopped { error } = &state {
                    let about = format!("{}: the node is not kept any longer", register.path);
                    let failure = || Failure::from(error.clone()).about(&about).of_stream();
                    output.note(&failure().with_presented(identity).to_string());
                    // The cause is printed already.
                    let end = format!("{}: the command ended without its node", register.path);
                    stopped = Some(failure().with_message(end));
                } else {
                    print_change(&register.path, &state, creation, output);
                }
                creation = self::creation(&state).or(creation);
                store_session(file, &state);
            }
        }
    }
}

fn store_session(file: &mut Option<StateFile>, state: &NodeState) {
    if let (Some(file), Some(stat)) = (file, state.stat()) {
        file.store(stat.ephemeral_owner);
    }
}

/// Waits until the node exists. Another process may have a node at the path for a while.
async fn created(
    states: &mut watch::Receiver<NodeState>,
    path: &str,
    deadline: Option<Instant>,
    output: Output,
) -> Result<()> {
    loop {
        let state = states.borrow_and_update().clone();
        match &state {
            NodeState::Present { .. } => return Ok(()),
            NodeState::Refused { error }
            | NodeState::Stopped { error }
            | NodeState::Closed { error: Some(error) } => return Err(error.clone().into()),
            _ => print_trouble(path, &state, output),
        }
        let is_changed = tokio::select! {
            changed = states.changed() => changed.is_ok(),
            () = until(deadline) => false,
        };
        if !is_changed {
            return Err(Failure::not_in_time(format!("{path}: not registered: {state}")));
        }
    }
}

fn creation(state: &NodeState) -> Option<Zxid> {
    state.stat().map(|stat| stat.czxid)
}

/// Prints that the node was lost, why it is not created again, or that it is. `last` is the zxid that
/// created the last one.
fn print_change(path: &str, state: &NodeState, last: Option<Zxid>, output: Output) {
    match state {
        NodeState::Pending => output.note(&format!("{path}: the node was lost; creating it again")),
        NodeState::Present { .. } if creation(state) != last => {
            output.note(&format!("{path}: registered again"));
        }
        state => print_trouble(path, state, output),
    }
}

/// Prints why the node does not exist, unless it is about to be created.
fn print_trouble(path: &str, state: &NodeState, output: Output) {
    match state {
        NodeState::Pending | NodeState::Present { .. } => {}
        state => output.note(&format!("{path}: {state}")),
    }
}
