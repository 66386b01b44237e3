//! `zk discover`: services and their instances, on the nodes and the JSON of Curator's
//! `ServiceDiscovery`.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{IsTerminal, stdout};
use std::slice;

use zk_discovery::{InstanceError, ServiceInstance};
use zk_recipes::session::{
    Client, Error, ErrorCode, EventType, PathError, Retry, WatchStreamItem, path, path::child,
    path::file_name, validate_path,
};

use crate::at_once::read_each;
use crate::output::aligned;
use crate::prelude::{
    ClapArgs, Failure, Output, Result, Session, Sessions, Value, data_text, json,
};
use crate::watch_notes::WatchNotes;

/// The `discover` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without SERVICE, each line is the name of a service, a tab, and the number of its instances. With it, \
each line is an instance: its id, a tab, and its address. A disabled instance has a tab and the word \
disabled after that. On a terminal it is a table. With --json, the line of an instance is its JSON as \
zk register would write it. If there is no service or no instance, the exit status is 1.

With --watch, each line begins with added, changed or removed, and a tab. The present instances come \
first. Once it watches, it waits without a limit for the ensemble. Any signal that it can handle ends \
it, with status 0 once it watches.

The option --watch needs ZooKeeper 3.6. zk register registers an instance: the name of its node is the \
id.

Examples:
  zk discover
  zk discover web --json
  zk discover web --base /services --watch
  zk register /services/web/a '{\"name\":\"web\",\"id\":\"a\"}' -- ./serve.sh")]
pub(crate) struct Discover {
    /// The service; without it, the services are listed.
    service: Option<String>,

    /// The node below which the services are, as in the basePath of Java's ServiceDiscovery.
    #[arg(long, value_name = "PATH", default_value = "/services")]
    base: String,

    /// Print the instances, and then each change, until interrupted.
    #[arg(long, requires = "service")]
    watch: bool,
}

impl Discover {
    /// Returns the path of the service, or of all services.
    fn path(&self) -> Result<String, PathError> {
        let path = match &self.service {
            Some(name) => child(&self.base, name),
            None => self.base.clone(),
        };
        validate_path(&path)?;
        Ok(path)
    }
}

pub(crate) async fn run(mut sessions: Sessions, args: &Discover) -> Result<u8> {
    let path = args.path()?;
    if !args.watch {
        return sessions.run_to_end(None, async |session| list(session, args, &path).await).await;
    }
    let notes = WatchNotes::new(&path, sessions.context.output);
    let mut told = Nodes::new();
    let follow = async |session: &Session| follow(session, &path, &mut told, &notes).await;
    notes.follow(sessions, || false, follow).await
}

/// Prints the services, or the instances of one.
async fn list(session: &Session, args: &Discover, path: &str) -> Result<()> {
    match args.service {
        None => print_services(path, &services(session, path).await?, session.output),
        Some(_) => {
            let nodes = read_nodes(session, &children(&session.retry, path).await?).await?;
            print_instances(path, &nodes, session.output)
        }
    }
}

/// Reads the names of the services, and the number of nodes below each.
async fn services(session: &Session, base: &str) -> Result<Vec<(String, i32)>, Error> {
    let paths = children(&session.retry, base).await?;
    let mut services = Vec::new();
    read_each(session, &paths, Client::exists, &mut |path, stat| {
        services.extend(stat.map(|stat| (file_name(path).to_owned(), stat.num_children)));
    })
    .await?;
    Ok(services)
}

/// Lists the paths of the children, sorted. A node that does not exist has none.
async fn children(retry: &Retry, path: &str) -> Result<Vec<String>, Error> {
    let listed = match retry.get_children(path).await {
        Err(error) if error.is_no_node() => return Ok(Vec::new()),
        listed => listed?.names,
    };
    let mut paths: Vec<_> = listed.names().map(|name| child(path, &name)).collect();
    paths.sort_unstable();
    Ok(paths)
}

/// The nodes below a service, by path.
type Nodes = BTreeMap<String, Node>;

/// An instance, or the reason why the data is none.
type Node = Result<ServiceInstance, InstanceError>;

/// Reads these nodes. Those that have vanished, or that this client may not read, are left out.
async fn read_nodes(session: &Session, paths: &[String]) -> Result<Nodes, Error> {
    let mut nodes = Nodes::new();
    read_each(session, paths, Client::get_data, &mut |path, node| {
        nodes.insert(path.to_owned(), ServiceInstance::from_json(&node.data));
    })
    .await?;
    Ok(nodes)
}

fn print_services(base: &str, services: &[(String, i32)], output: Output) -> Result<()> {
    if services.is_empty() {
        return Err(Failure::other(format!("{base}: there is no service; see --base")));
    }
    let to_json = |(name, number): &(String, i32)| {
        json!({ "service": name, "instances": number }).to_string()
    };
    let row = |(name, number): &(String, i32)| [data_text(name.as_bytes()), number.to_string()];
    print_rows(services, ["SERVICE", "INSTANCES"], row, to_json, output)
}

fn print_instances(path: &str, nodes: &Nodes, output: Output) -> Result<()> {
    for (path, node) in nodes {
        note_rejected(path, node, output);
    }
    let instances: Vec<_> = nodes.values().flatten().cloned().collect();
    if instances.is_empty() {
        return Err(Failure::other(format!("{path}: there is no instance")));
    }
    print_rows(&instances, ["ID", "ADDRESS", "STATE"], row, to_json, output)
}

/// Prints a table on a terminal, otherwise a line with tabs for each item, or its JSON.
fn print_rows<T, const COLUMNS: usize>(
    items: &[T],
    head: [&str; COLUMNS],
    row: impl Fn(&T) -> [String; COLUMNS],
    json: impl Fn(&T) -> String,
    output: Output,
) -> Result<()> {
    if output.is_json {
        return items.iter().try_for_each(|item| output.print_text([], || json(item)));
    }
    let mut rows: Vec<_> = items.iter().map(row).collect();
    if stdout().is_terminal() {
        rows.insert(0, head.map(str::to_owned));
        return output.print(aligned(&rows), || Value::Null);
    }
    let line = |row: &[String; COLUMNS]| row.join("\t").trim_end().to_owned();
    output.print(rows.iter().map(line), || Value::Null)
}

/// Follows the changes until the session ends.
async fn follow(
    session: &Session,
    path: &str,
    told: &mut Nodes,
    notes: &WatchNotes<'_>,
) -> Result<Infallible> {
    let output = session.output;
    // The watch comes before the read, so that no change falls between the two.
    let watched = notes.session(session).retry.run(|client| client.watch_recursive(path)).await;
    let hint = "--watch needs ZooKeeper 3.6";
    let mut stream =
        watched.map_err(|error| Failure::from(error).with_hint(ErrorCode::UNIMPLEMENTED, hint))?;
    notes.begin();
    // Once it watches, it waits without a limit for the ensemble.
    let session = &session.endless();
    let mut news = Some(WatchStreamItem::Gap);
    loop {
        match news {
            Some(WatchStreamItem::Changed(event)) => {
                if path::parent(&event.path) == Some(path) {
                    let exists = event.event_type != EventType::NODE_DELETED;
                    let changed = if exists { slice::from_ref(&event.path) } else { &[] };
                    let mut now = read_nodes(session, changed).await?;
                    print_change(told, &event.path, now.remove(&event.path), output)?;
                }
            }
            Some(WatchStreamItem::Gap | WatchStreamItem::Overflow { .. }) => {
                // This server may lag behind the one that was read before.
                session.retry.run(|client| client.sync(path)).await?;
                let listed = children(&session.retry, path).await?;
                let mut now = read_nodes(session, &listed).await?;
                let paths: BTreeSet<_> = told.keys().chain(now.keys()).cloned().collect();
                for path in paths {
                    print_change(told, &path, now.remove(&path), output)?;
                }
            }
            // The stream ends after the error.
            None => return Err(Failure::other("the watch has ended")),
        }
        news = stream.next().await.transpose()?;
    }
}

/// Prints the event that leads to the present state of a node, if it has changed.
fn print_change(told: &mut Nodes, path: &str, now: Option<Node>, output: Output) -> Result<()> {
    let before = match &now {
        Some(node) => told.insert(path.to_owned(), node.clone()),
        None => told.remove(path),
    };
    if before == now {
        return Ok(());
    }
    if let Some(node) = &now {
        note_rejected(path, node, output);
    }
    let (event, instance) = match (before, now) {
        (Some(Ok(_)), Some(Ok(now))) => ("changed", now),
        (_, Some(Ok(now))) => ("added", now),
        (Some(Ok(before)), _) => ("removed", before),
        _ => return Ok(()),
    };
    let line = format!("{event}\t{}", row(&instance).join("\t"));
    let line = line.trim_end().to_owned();
    let json = || format!(r#"{{"event":"{event}","instance":{}}}"#, to_json(&instance));
    output.print_text([line], json)
}

fn note_rejected(path: &str, node: &Node, output: Output) {
    if let Err(error) = node {
        output.note(&format!("{path} is ignored: {error}"));
    }
}

fn row(instance: &ServiceInstance) -> [String; 3] {
    let address = instance.address().unwrap_or_default();
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let address = match instance.port().or_else(|| instance.ssl_port()) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    let state = if instance.is_enabled() { "" } else { "disabled" };
    [instance.id(), &address, state].map(|cell| data_text(cell.as_bytes()))
}

/// Returns the JSON of the instance's node, with Curator's defaults, on one line. The payload is not
/// parsed: it may have numbers that no type of this program holds.
fn to_json(instance: &ServiceInstance) -> String {
    let (mut line, mut is_string, mut is_escaped) = (String::new(), false, false);
    for char in instance.to_json().chars() {
        if is_string || !char.is_ascii_whitespace() {
            line.push(char);
        }
        is_string ^= char == '"' && !is_escaped;
        is_escaped = is_string && char == '\\' && !is_escaped;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_an_instance_is_one_line_and_keeps_its_payload() {
        let payload = r#"{"a": [1e400, 18446744073709551616],"b":"\"x y\\"}"#;
        let node = format!("{{\n\"name\": \"web\",\"id\":\"a\",\"payload\": {payload}\n}}");
        let instance = ServiceInstance::from_json(node.as_bytes()).unwrap();
        let line = to_json(&instance);
        let compact = r#""payload":{"a":[1e400,18446744073709551616],"b":"\"x y\\"}"#;
        assert!(line.contains(compact) && !line.contains('\n'), "{line}");
    }

    #[test]
    fn instance_is_one_line_of_text() {
        let web = || ServiceInstance::new("web").with_id("a\tb").with_port(80);
        let cells = |instance: ServiceInstance| row(&instance).join("|");
        assert_eq!(cells(web().with_address("10.0.0.7")), "a\\tb|10.0.0.7:80|");
        assert_eq!(cells(web().with_address("::1").disabled()), "a\\tb|[::1]:80|disabled");
        let web = ServiceInstance::new("web").with_id("a");
        assert_eq!(cells(web.clone().with_address("h")), "a|h|");
        assert_eq!(cells(web.with_address("h").with_ssl_port(443)), "a|h:443|");
    }
}
