//! `cargo xtask protocol`: compares the operations and records of ZooKeeper's source with those that
//! `zk-proto` was written for.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Failure, workspace_root};

/// The operations and records that `zk-proto` was written for, and the commit that they were read from.
const KNOWN: &str = "crates/zk-proto/zookeeper-protocol.txt";

const OPERATIONS: &str = "zookeeper-server/src/main/java/org/apache/zookeeper/ZooDefs.java";
const RECORDS: &str = "zookeeper-jute/src/main/resources/zookeeper.jute";

/// Modules of the records that clients and servers exchange.
const MODULES: [&str; 2] = ["org.apache.zookeeper.data", "org.apache.zookeeper.proto"];

/// Compares the git repository of ZooKeeper at `source`, which needs no work tree, at this revision.
pub(crate) fn run(source: &str, revision: &str, writes: bool) -> Result<(), Failure> {
    let git = |arguments: &[&str]| -> Result<String, Failure> {
        let output = Command::new("git").arg("-C").arg(source).args(arguments).output();
        let output =
            output.map_err(|error| Failure::task(format!("could not run git: {error}")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(Failure::task(text(&output.stderr)))
        }
    };
    let show = |file: &str| git(&["show", &format!("{revision}:{file}")]);
    let (operations, records) = (show(OPERATIONS)?, show(RECORDS)?);
    let found: BTreeSet<String> = operations_of(&operations).chain(records_of(&records)).collect();
    let file = known_file();
    if writes {
        let commit = git(&["log", "-1", "--format=%h of %cs", revision])?;
        let lines: Vec<String> = found.into_iter().collect();
        let text = format!("# {}\n{}\n", commit.trim(), lines.join("\n"));
        return fs::write(&file, text).map_err(|error| Failure::task(format!("{KNOWN}: {error}")));
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    let known: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let differences: Vec<String> = (found.difference(&known).map(|line| format!("+ {line}")))
        .chain(known.difference(&found).map(|line| format!("- {line}")))
        .collect();
    println!("compared with {KNOWN}: {}", text.lines().next().unwrap_or_default());
    if differences.is_empty() {
        println!("{} operations and records, none of them new or changed", found.len());
        return Ok(());
    }
    Err(Failure::task(format!("other operations or records:\n{}", differences.join("\n"))))
}

fn known_file() -> PathBuf {
    workspace_root().join(KNOWN)
}

/// Returns a line for each operation.
fn operations_of(java: &str) -> impl Iterator<Item = String> + '_ {
    let begin = java.find("interface OpCode").unwrap_or(java.len());
    let body = java[begin..].split('}').next().unwrap_or_default();
    body.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("public final "); // before 3.6
        let (name, number) = line.strip_prefix("int ")?.strip_suffix(';')?.split_once(" = ")?;
        Some(format!("operation {name} {number}"))
    })
}

/// Returns a line for each record of the [`MODULES`], with its fields in order.
fn records_of(jute: &str) -> impl Iterator<Item = String> + '_ {
    let modules = jute.split("module ").skip(1);
    let exchanged = modules.filter(|module| {
        MODULES.iter().any(|name| module.split_whitespace().next() == Some(*name))
    });
    exchanged.flat_map(|module| module.split("class ").skip(1)).map(|class| {
        let (name, body) = class.split_once('{').unwrap_or((class, ""));
        let body = body.split('}').next().unwrap_or_default();
        let code = body.lines().map(|line| line.split("//").next().unwrap_or_default());
        let code: String = code.collect::<Vec<_>>().join(" ").replace('>', "> ");
        let fields =
            code.split(';').map(|field| field.split_whitespace().collect::<Vec<_>>().join(" "));
        let fields: Vec<String> = fields.filter(|field| !field.is_empty()).collect();
        format!("record {}: {}", name.trim(), fields.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_records_are_read_from_source() {
        let java = "class ZooDefs { public interface OpCode {\n  int create = 1;\n\n  int error = -1;\n }\n
            interface Perms {\n int READ = 1;\n } }";
        assert_eq!(
            operations_of(java).collect::<Vec<_>>(),
            ["operation create 1", "operation error -1"]
        );
        let jute = "module org.apache.zookeeper.data {\n class Id {\n ustring scheme; // a
            ustring id;\n }\n }\n module org.apache.zookeeper.txn { class Txn { int type; } }
            module org.apache.zookeeper.proto { class SetWatches { vector<ustring>dataWatches; } }";
        assert_eq!(
            records_of(jute).collect::<Vec<_>>(),
            [
                "record Id: ustring scheme, ustring id",
                "record SetWatches: vector<ustring> dataWatches"
            ]
        );
    }

    /// Operations that `zk-proto` leaves out: see `OpCode`. `notification` and `error` are no requests.
    const LEFT_OUT: [&str; 4] = ["notification", "deleteContainer", "createSession", "error"];

    #[test]
    fn every_known_operation_is_implemented_or_left_out() {
        let known = fs::read_to_string(known_file()).unwrap();
        let source =
            fs::read_to_string(workspace_root().join("crates/zk-proto/src/request.rs")).unwrap();
        let operations = known.lines().filter_map(|line| line.strip_prefix("operation "));
        let mut count = 0;
        for operation in operations {
            let (name, number) = operation.split_once(' ').unwrap();
            let is_there = source.contains(&format!("\"{name}\""))
                && source.contains(&format!(" = {number},"));
            assert_eq!(is_there, !LEFT_OUT.contains(&name), "{operation}");
            count += 1;
        }
        assert_eq!(count, 33);
    }
}
