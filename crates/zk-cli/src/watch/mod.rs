//! `zk watch`: the changes of a node, or of a node and all below it.
//!
//! * [`node`] follows one node by one-shot watches, which all servers have.
//! * [`subtree`] follows a node and all below it by a persistent watch.
//! * [`reaction`] prints an event, or runs a command for it.

mod node;
mod reaction;
mod subtree;

use std::ffi::OsString;

use self::node::NodeWatch;
use self::reaction::{Ending, Reaction};
use self::subtree::SubtreeWatch;
use crate::prelude::{ClapArgs, Result, Session, Sessions};
use crate::watch_notes::WatchNotes;

/// The `watch` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each event is one line: NodeCreated, NodeDataChanged, NodeDeleted or NodeChildrenChanged, and the \
path. The node need not exist. Without --recursive, several quick changes may appear as one; the last \
line always matches the node as it is.

With --recursive the events are those of every node, and a created or deleted child is an event of its \
own. It needs ZooKeeper 3.6. The command reads the status of all nodes when it begins. After a lost \
connection it reads them again, and prints the events that lead from the old state to the new one. An \
event at that moment may appear twice. Before ZooKeeper 3.9, so may the last change of each node.

The command reconnects, and opens a new session when one expires, with a line on standard error; then \
it prints the changes since. Once it watches, it waits without a limit for the ensemble. SIGINT, \
SIGTERM and all other signals that can end a process end it, with status 0 once it watches.

CMD gets the event in ZK_EVENT, the path in ZK_PATH and, with --data, the data on standard input. \
Events wait until it has ended. If its exit status is not 0, the command reports it and goes on. When \
a signal arrives, a running CMD gets SIGTERM, then SIGKILL after 5 s.

Examples:
  zk watch /app/config --data
  zk watch /app --recursive --json
  zk watch /app/config --exec systemctl reload app")]
pub(crate) struct WatchArgs {
    /// The node.
    path: String,

    /// Watch all nodes below it, too.
    #[arg(long, short = 'R')]
    recursive: bool,

    /// Print the data after the event, as it is then, with control characters escaped. With
    /// --recursive, a node that this client may not read has none.
    #[arg(long)]
    data: bool,

    /// Run a command for each event, with all arguments after this option. The event is not printed.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    exec: Vec<OsString>,
}

pub(crate) async fn run(sessions: Sessions, args: &WatchArgs) -> Result<u8> {
    let output = sessions.context.output;
    let ending = Ending::default();
    let reaction = Reaction { output, with_data: args.data, command: &args.exec, ending: &ending };
    let notes = WatchNotes::new(&args.path, output);
    let watched = Watched { path: &args.path, reaction, notes: &notes };
    let (mut node, mut subtree) = (NodeWatch::default(), SubtreeWatch::default());
    let follow = async |session: &Session| {
        if args.recursive {
            subtree.follow(session, &watched).await
        } else {
            node.follow(session, &watched).await
        }
    };
    notes.follow(sessions, || ending.begin(), follow).await
}

/// The node to watch, and the reaction to its events.
struct Watched<'a> {
    path: &'a str,
    reaction: Reaction<'a>,
    notes: &'a WatchNotes<'a>,
}
