//! Histories in EDN, for Jepsen's checkers.

use std::io::{self, Write};

use crate::record::{self, Ended, Entry, Kind, Level, Moment};

/// Writes the writes and strong reads of a history, one event a line, as Jepsen reads them.
///
/// Each node is a register of [`jepsen.independent`]: its value is the number in its data, or `:absent`. A
/// deletion writes `:absent`. A transaction is one write for each of its nodes. Plain reads are left out,
/// because they may be old. A process has one operation at a time, and none after `:info`, as Jepsen
/// requires.
///
/// [`jepsen.independent`]: https://jepsen-io.github.io/jepsen/jepsen.independent.html
///
/// # Errors
/// The writer fails.
pub fn write_edn(entries: &[Entry], to: &mut impl Write) -> io::Result<()> {
    let mut events: Vec<(Moment, bool, usize, Register)> = Vec::new();
    for entry in entries {
        for register in registers(entry) {
            let ended = entry.returned.as_ref().map(|(moment, _)| *moment);
            let operation = events.len();
            events.push((entry.invoked, true, operation, register.clone()));
            events.extend(ended.map(|moment| (moment, false, operation, register)));
        }
    }
    events.sort_by_key(|(moment, _, operation, _)| (moment.order, *operation));
    // The operation of each process, as long as it runs.
    let mut processes: Vec<Option<usize>> = Vec::new();
    for (index, (moment, is_invocation, operation, register)) in events.iter().enumerate() {
        let wanted = (!is_invocation).then_some(*operation);
        let process = processes.iter().position(|running| *running == wanted);
        let process = process.unwrap_or_else(|| {
            processes.push(None);
            processes.len() - 1
        });
        // After `:info` the process never has another operation.
        let is_over = !is_invocation && register.kind != "info";
        processes[process] = if is_over { None } else { Some(*operation) };
        let (kind, value) = match is_invocation {
            true => ("invoke", register.argument.as_str()),
            false => (register.kind, register.result.as_str()),
        };
        let Register { path, function, .. } = register;
        let time = moment.at_us * 1_000;
        writeln!(
            to,
            "{{:index {index}, :time {time}, :process {process}, :type :{kind}, :f :{function}, \
             :value [{path:?} {value}]}}"
        )?;
    }
    Ok(())
}

/// An operation on one node.
#[derive(Clone)]
struct Register {
    path: String,
    function: &'static str,
    argument: String,
    kind: &'static str,
    result: String,
}

fn registers(entry: &Entry) -> Vec<Register> {
    let ended = entry.ended();
    let text =
        |data: Option<u64>| data.map_or_else(|| ":absent".to_owned(), |data| data.to_string());
    match &entry.kind {
        Kind::Read { level: Level::Plain, .. } => Vec::new(),
        Kind::Read { path, .. } => {
            let (kind, result) = match ended {
                // `exists` shows no data.
                Ended::Read(Some(node)) if node.data.is_none() => return Vec::new(),
                Ended::Read(node) => ("ok", text(node.and_then(|node| node.data))),
                _ => ("fail", "nil".to_owned()),
            };
            let argument = "nil".to_owned();
            vec![Register { path: path.clone(), function: "read", argument, kind, result }]
        }
        Kind::Write(writes) => {
            let kind = match ended {
                Ended::Applied(_) => "ok",
                Ended::Rejected(..) | Ended::NotApplied => "fail",
                Ended::Read(_) | Ended::Unknown => "info",
            };
            let register = |write: &record::Write| {
                let argument = text(write.change.data());
                let (path, result) = (write.path.clone(), argument.clone());
                Register { path, function: "write", argument, kind, result }
            };
            writes.iter().map(register).collect()
        }
    }
}
