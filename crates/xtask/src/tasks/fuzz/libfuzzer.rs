//! Run of one target: libFuzzer's command line and its final output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Build;
use crate::tasks::workspace_root;

/// Fuzzes one target, and returns libFuzzer's last line. The error has the failure, and the command to
/// replay it.
pub(super) fn run(build: &Build, target: &str, secs: u32) -> Result<String, String> {
    let places = Places::of(target);
    for folder in [&places.grown, &places.artifacts] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let program = build.program(target);
    let output = Command::new(&program)
        .current_dir(workspace_root())
        .arg(format!("-max_total_time={secs}"))
        .arg(format!("-rss_limit_mb={MEMORY_MAX_MB}"))
        .arg(format!("-malloc_limit_mb={ALLOCATION_MAX_MB}"))
        .arg(format!("-timeout={INPUT_MAX_SECS}"))
        .arg(format!("-artifact_prefix={}/", places.artifacts.display()))
        // libFuzzer writes new inputs to the first folder.
        .args([&places.grown, &places.seeds])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(report(target, &places.artifacts, &text));
    }
    let last = text.lines().rfind(|line| line.starts_with('#') && line.contains("DONE"));
    last.map(str::to_owned)
        .ok_or_else(|| format!("{target}: libFuzzer ended without its last line"))
}

/// Folders of a target's inputs.
struct Places {
    /// Committed seeds.
    seeds: PathBuf,
    /// Inputs that fuzzing added on this machine.
    grown: PathBuf,
    /// Inputs that make the target fail.
    artifacts: PathBuf,
}

impl Places {
    fn of(target: &str) -> Self {
        let folder = |name: &str| workspace_root().join("fuzz").join(name).join(target);
        Self {
            seeds: folder("corpus"),
            grown: folder("corpus-grown"),
            artifacts: folder("artifacts"),
        }
    }
}

/// Returns a report: the panic if there was one, the input file, and the command to replay it.
fn report(target: &str, artifacts: &Path, text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !is_cause(line));
    let cause: Vec<&str> =
        lines.by_ref().take_while(|line| !line.contains("stack backtrace")).collect();
    let cause = cause.iter().take(CAUSE_LINES).copied().collect::<Vec<_>>().join("\n    ");
    let cause = if cause.is_empty() { "it failed without a word" } else { &cause };
    let written = text.lines().find_map(|line| line.split_once("Test unit written to "));
    let Some((_, file)) = written else {
        return format!("{target}: {cause}\n  no input was kept under {}", artifacts.display());
    };
    format!(
        "{target}: {cause}\n  input:  {file}\n  replay: cargo run --manifest-path fuzz/Cargo.toml \
         --bin {target} -- {file}"
    )
}

fn is_cause(line: &str) -> bool {
    line.contains("panicked at") || line.contains("ERROR: ") || line.contains("runtime error")
}

/// Several times the memory of the fuzzer itself, including its corpus.
const MEMORY_MAX_MB: u32 = 512;

/// Inputs have at most a few kilobytes, and no decoder needs many times that.
const ALLOCATION_MAX_MB: u32 = 64;

/// Limit for one input. A slower input counts as a hang.
const INPUT_MAX_SECS: u32 = 10;

/// Maximum number of lines of a panic's message in a report.
const CAUSE_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_cause_input_and_replay_command() {
        let text = "\
INFO: Loaded 1 modules
thread '<unnamed>' panicked at src/records.rs:103:13:
assertion `left == right` failed
stack backtrace:
   0: main
Test unit written to fuzz/artifacts/multi/crash-1
";
        let report = report("multi", Path::new("fuzz/artifacts/multi"), text);
        assert_eq!(
            report,
            "multi: thread '<unnamed>' panicked at src/records.rs:103:13:\n    assertion `left == \
             right` failed\n  input:  fuzz/artifacts/multi/crash-1\n  replay: cargo run \
             --manifest-path fuzz/Cargo.toml --bin multi -- fuzz/artifacts/multi/crash-1"
        );
    }
}
