//! Run of one target: libFuzzer's command line and its final output.

use std::fs;
use std::process::Command;

use super::build::Build;
use crate::tasks::workspace_root;

/// Fuzzes one target, and returns libFuzzer's last line. The error has the failure, and the command to
/// replay it.
pub(super) fn run(build: &Build, target: &str, secs: u32) -> Result<String, String> {
    let folder = |name: &str| workspace_root().join("fuzz").join(name).join(target);
    let (seeds, grown, artifacts) = (folder("corpus"), folder("corpus-grown"), folder("artifacts"));
    for folder in [&grown, &artifacts] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let program = build.program(target);
    let output = Command::new(&program)
        .current_dir(workspace_root())
        .arg(format!("-max_total_time={secs}"))
        .arg(format!("-rss_limit_mb={MEMORY_MAX_MB}"))
        .arg(format!("-malloc_limit_mb={ALLOCATION_MAX_MB}"))
        .arg(format!("-timeout={INPUT_MAX_SECS}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // libFuzzer writes new inputs to the first folder.
        .args([&grown, &seeds])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(report(target, &text));
    }
    let last = text.lines().rfind(|line| line.starts_with('#') && line.contains("DONE"));
    last.map(str::to_owned)
        .ok_or_else(|| format!("{target}: libFuzzer ended without its last line"))
}

/// Returns a report: what libFuzzer printed from the panic on, and the command to replay the input.
fn report(target: &str, text: &str) -> String {
    let cause =
        ["panicked at", "ERROR: ", "runtime error"].iter().filter_map(|mark| text.find(mark)).min();
    let start = cause.and_then(|at| text[..at].rfind('\n')).unwrap_or(0);
    let written = text.lines().find_map(|line| line.split_once("Test unit written to "));
    let file = written.map_or("FILE", |(_, file)| file);
    let replay = format!("cargo run --manifest-path fuzz/Cargo.toml --bin {target} -- {file}");
    format!("{target}:{}\n  replay: {replay}", text[start..].trim_end())
}

/// Several times the memory of the fuzzer itself, including its corpus.
const MEMORY_MAX_MB: u32 = 512;

/// Inputs have at most a few kilobytes, and no decoder needs many times that.
const ALLOCATION_MAX_MB: u32 = 64;

/// Limit for one input. A slower input counts as a hang.
const INPUT_MAX_SECS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_cause_input_and_replay_command() {
        let text = "\
INFO: Loaded 1 modules
thread '<unnamed>' panicked at src/records.rs:103:13:
assertion `left == right` failed
Test unit written to fuzz/artifacts/multi/crash-1
";
        assert_eq!(
            report("multi", text),
            "multi:\nthread '<unnamed>' panicked at src/records.rs:103:13:\nassertion `left == right` \
             failed\nTest unit written to fuzz/artifacts/multi/crash-1\n  replay: cargo run \
             --manifest-path fuzz/Cargo.toml --bin multi -- fuzz/artifacts/multi/crash-1"
        );
    }
}
