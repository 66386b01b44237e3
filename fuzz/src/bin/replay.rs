//! Replays files and folders through a target: `replay TARGET [FILE|FOLDER]…`. Without a file it uses the
//! target's corpus, without a target all corpora.

use std::process::ExitCode;

use zk_fuzz::{TARGETS, replay};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if let Some(name) = arguments.next() {
        return replay::main(&name.to_string_lossy(), arguments);
    }
    let failed = TARGETS.iter().find_map(|target| {
        let status = replay::main(target.name, []);
        (status != ExitCode::SUCCESS).then_some(status)
    });
    failed.unwrap_or(ExitCode::SUCCESS)
}
