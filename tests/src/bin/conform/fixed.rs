//! Fixed scripts: behaviour that recipes rely on, and that few random scripts show.

use zk_proto::OpCode;

use crate::message::Message;
use crate::script::{Send, Session, Step, ordinary};

/// Creates the steps of a script on nodes below a root.
type Make = fn(&str) -> Vec<Step>;

/// The scripts, with their names in reports.
pub(crate) const SCRIPTS: [(&str, Make); 3] = [
    ("ephemerals", ephemerals),
    ("sequential-children", sequential_children),
    ("watches-on-absent-nodes", watches_on_absent_nodes),
];

/// Flags of a create.
const PERSISTENT: i32 = 0;
const EPHEMERAL: i32 = 1;
const EPHEMERAL_SEQUENTIAL: i32 = 3;

/// getEphemerals lists all nodes of the session, and only those, whose paths start with the prefix. Spaces
/// around it count, unless nothing but a slash remains without them.
fn ephemerals(root: &str) -> Vec<Step> {
    let at = |path: &str| format!("{root}{path}");
    let list = |prefix: Option<&str>| {
        named(OpCode::GetEphemerals).buffer("prefix", prefix.map(str::as_bytes))
    };
    let mut steps = connected(2);
    steps.extend(["/p", "/p/d"].map(|path| sent(0, create(&at(path), PERSISTENT))));
    let own = ["/p/n-1", "/p/n-2", "/p/m", "/p/d/n-3", "/px", "/p/"];
    let flags = |path: &str| if path.ends_with('/') { EPHEMERAL_SEQUENTIAL } else { EPHEMERAL };
    steps.extend(own.map(|path| sent(0, create(&at(path), flags(path)))));
    steps.push(sent(1, create(&at("/p/n-4"), EPHEMERAL)));
    let read = |client| {
        let everything = [None, Some(""), Some(" \t"), Some("/"), Some(" /\u{1} ")].map(list);
        let spaced = [format!(" {root}"), at("/p/n-1 "), format!("{root} ")];
        let below = ["", "/", "/p", "/p/", "/p/n-", "/p/n-1", "/p/n-1/", "/p/d/", "/none"].map(at);
        let prefixes = below.into_iter().chain(spaced);
        everything
            .into_iter()
            .chain(prefixes.map(move |prefix| list(Some(&prefix))))
            .map(move |message| sent(client, message))
            .collect::<Vec<_>>()
    };
    steps.extend(read(0));
    steps.extend(read(1));
    // A deleted node and a new connection: the list is the session's, and not the connection's.
    steps.push(sent(1, delete(&at("/p/n-1"))));
    steps.push(Step::HangUp { client: 0 });
    let resumed = Session::Of { client: 0, with_wrong_password: false };
    steps.push(Step::Connect(ordinary(0, resumed)));
    steps.extend(read(0));
    steps.push(sent(0, named(OpCode::CloseSession)));
    steps.extend(read(1));
    steps
}

/// The Stat of the parent after each create: its pzxid is the czxid of the last child, and its number of
/// children includes that child. The number in a name counts creates: neither a delete nor a failed create
/// leaves a gap, and a child with a whole name does.
fn sequential_children(root: &str) -> Vec<Step> {
    let parent = format!("{root}/p");
    let at = |name: &str| format!("{parent}/{name}");
    let next = || create(&at("n-"), EPHEMERAL_SEQUENTIAL);
    let failing = named(OpCode::Multi).part(&next()).part(&create(&parent, PERSISTENT)).end();
    let messages = [
        create(&parent, PERSISTENT),
        next(),
        next(),
        delete(&at("n-0000000000")),
        next(),
        delete(&at("n-0000000001")),
        delete(&at("n-0000000002")),
        next(),
        create(&at("n-0000000003"), EPHEMERAL),
        create(&at("none/n-"), EPHEMERAL_SEQUENTIAL),
        failing,
        next(),
        create(&at("whole"), EPHEMERAL),
        next(),
        delete(&at("whole")),
        next(),
    ];
    let mut steps = connected(2);
    for (step, message) in messages.into_iter().enumerate() {
        // The sessions take turns.
        steps.push(sent(step % 2, message));
        steps.push(sent(0, named(OpCode::Exists).string("path", &parent).byte("watch", 0)));
        steps.push(sent(1, named(OpCode::GetChildren2).string("path", &parent).byte("watch", 0)));
    }
    steps
}

/// setWatches reports a deletion for a watch on a node that does not exist, whether it has ever existed. The
/// event precedes the reply, its zxid is -1, and the watch is spent. Only a watch for the creation stays.
fn watches_on_absent_nodes(root: &str) -> Vec<Step> {
    let node = format!("{root}/n");
    let set = |since: i64, lists: [bool; 3]| {
        let message = named(OpCode::SetWatches).zxid("since", since);
        let names = ["data", "exist", "child"];
        names.into_iter().zip(lists).fold(message, |message, (name, is_watched)| {
            let paths = if is_watched { vec![node.as_bytes().to_vec()] } else { Vec::new() };
            message.strings(name, &paths)
        })
    };
    let mut steps = connected(2);
    for _ in 0..2 {
        for since in [-1, 0, 1_000_000] {
            for watched in 0..3 {
                let lists = [0, 1, 2].map(|list| list == watched);
                steps.push(sent(0, set(since, lists)));
            }
        }
        steps.push(sent(0, set(0, [true; 3])));
        // The node exists now, and is gone in the second pass.
        steps.push(sent(1, create(&node, PERSISTENT)));
        steps.push(sent(0, named(OpCode::Ping)));
        steps.push(sent(1, delete(&node)));
        steps.push(sent(0, named(OpCode::Ping)));
    }
    steps
}

/// Returns steps that connect clients, each with a session of its own.
fn connected(clients: usize) -> Vec<Step> {
    (0..clients).map(|client| Step::Connect(ordinary(client, Session::New))).collect()
}

fn sent(client: usize, message: Message) -> Step {
    Step::Send(Send { client, message, xid: None, is_pipelined: false })
}

fn named(op: OpCode) -> Message {
    Message::new(op.code(), op.name())
}

fn create(path: &str, flags: i32) -> Message {
    let message = named(OpCode::Create2).string("path", path).string("data", "x").int("acl", 1);
    message.int("", 31).string("", "world").string("", "anyone").int("flags", flags)
}

fn delete(path: &str) -> Message {
    named(OpCode::Delete).string("path", path).int("version", -1)
}
