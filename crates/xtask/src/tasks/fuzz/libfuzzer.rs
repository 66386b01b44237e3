//! Run of one target: libFuzzer's command line and its final output.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Build;
use crate::tasks::workspace_root;

/// Fuzzes one target. The error has the failure, and the command to replay it.
pub(super) fn run(build: &Build, target: &str, secs: u32) -> Result<Run, String> {
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
        .arg("-print_final_stats=1")
        // libFuzzer writes new inputs to the first folder.
        .args([&places.grown, &places.seeds])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(report(target, &places.artifacts, &text));
    }
    Run::read(target, &text)
        .ok_or_else(|| format!("{target}: libFuzzer ended without its last line"))
}

/// Result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    target: String,
    executions: u64,
    executions_per_sec: u64,
    /// Edges of the program that were taken.
    coverage: u64,
    /// Edges, each with its number of executions, in ranges.
    features: u64,
    new_units: u64,
}

impl Run {
    pub(super) const HEADER: &str =
        "target          executions    exec/s       cov        ft   new inputs";

    /// Parses the last status line, `#123 DONE   cov: 4 ft: 5 corp: …`, and the final statistics.
    fn read(target: &str, text: &str) -> Option<Self> {
        let last = text.lines().rfind(|line| line.starts_with('#') && line.contains("DONE"))?;
        let words: Vec<&str> = last.split_whitespace().collect();
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        let statistic = |name: &str| {
            let line = text.lines().rfind(|line| line.starts_with(&format!("stat::{name}:")))?;
            line.rsplit(' ').next()?.parse().ok()
        };
        Some(Self {
            target: target.to_owned(),
            executions: statistic("number_of_executed_units")?,
            executions_per_sec: statistic("average_exec_per_sec")?,
            coverage: after("cov:")?,
            features: after("ft:")?,
            new_units: statistic("new_units_added")?,
        })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, executions, executions_per_sec, coverage, features, new_units } = self;
        write!(
            f,
            "{target:<14} {executions:>11} {executions_per_sec:>9} {coverage:>9} {features:>9} \
             {new_units:>12}"
        )
    }
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

    const DONE: &str = "\
#200000\tREDUCE cov: 240 ft: 1000 corp: 90/9Kb lim: 4096 exec/s: 90000 rss: 90Mb L: 1/9 MS: 1 A-
#203648\tDONE   cov: 244 ft: 1069 corp: 95/10555b lim: 1387 exec/s: 15665 rss: 609Mb
Done 203648 runs in 13 second(s)
stat::number_of_executed_units: 203648
stat::average_exec_per_sec:     15665
stat::new_units_added:          310
stat::slowest_unit_time_sec:    0
";

    #[test]
    fn run_reads_the_final_statistics() {
        let run = Run::read("frames", DONE).unwrap();
        let expected = Run {
            target: "frames".into(),
            executions: 203_648,
            executions_per_sec: 15_665,
            coverage: 244,
            features: 1069,
            new_units: 310,
        };
        assert_eq!(run, expected);
        assert_eq!(run.to_string().len(), Run::HEADER.len());
        assert_eq!(Run::read("frames", "#1\tINITED cov: 1 ft: 1"), None);
    }

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
