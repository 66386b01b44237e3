//! Builds of the fuzz targets for libFuzzer, as cargo-fuzz makes them.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::corpora::MANIFEST;
use crate::process::find_program;
use crate::tasks::{cargo, output_of, workspace_root};

/// Build of the fuzz targets.
#[derive(Debug)]
pub(super) struct Build {
    /// The host triple. A build for it by name keeps the flags away from build scripts.
    host: String,
    profile: &'static str,
}

impl Build {
    /// Prepares a build. The error says in a few words what is missing.
    pub(super) fn prepare(is_quick: bool) -> Result<Self, String> {
        let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
        if find_program(&compiler).is_none() {
            return Err(format!("no C++ compiler `{compiler}`, which libFuzzer is built with"));
        }
        let host = host().ok_or("`rustc -vV` names no host")?;
        let mut fetch = cargo(&["fetch", "--quiet", "--manifest-path", MANIFEST]);
        if !fetch.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Err("the packages that libFuzzer needs cannot be fetched".into());
        }
        Ok(Self { host, profile: if is_quick { "quick" } else { "release" } })
    }

    /// Returns the command that builds all targets.
    ///
    /// They are built without a sanitizer, because they have no unsafe code and run six times as fast without
    /// one. Any toolchain can do that.
    pub(super) fn command(&self) -> Command {
        let mut command = cargo(&["build", "--manifest-path", MANIFEST, "--bins"]);
        command.args(["--no-default-features", "--profile", self.profile, "--target", &self.host]);
        command.env("CARGO_TARGET_DIR", target_folder()).env("RUSTFLAGS", FLAGS.join(" "));
        command
    }

    /// Returns the path of a target's program after the build.
    pub(super) fn program(&self, target: &str) -> PathBuf {
        target_folder().join(&self.host).join(self.profile).join(target)
    }
}

fn host() -> Option<String> {
    let text = output_of(Command::new("rustc").arg("-vV")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// Returns a separate target folder: the flags differ, and builds in one folder would wait for each other.
fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace_root().join(folder).join("fuzz"),
        None => workspace_root().join("fuzz/target"),
    }
}

/// The flags with which cargo-fuzz 0.13 builds without a sanitizer.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
];
