//! Tools that fuzzing needs: a toolchain of rustup, a C++ compiler for libFuzzer, and cargo-fuzz.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::corpora::MANIFEST;
use crate::process::find_program;
use crate::tasks::{cargo, workspace_root};

/// Toolchain for fuzzing.
#[derive(Debug)]
pub(super) struct Toolchain {
    /// The toolchain's name in rustup.
    name: String,
    /// The toolchain's host triple, which is also a folder of its output.
    host: String,
}

impl Toolchain {
    /// Finds a toolchain, and installs cargo-fuzz if it is missing.
    ///
    /// The toolchain is that of FUZZ_TOOLCHAIN, else nightly, else the one that runs this program. Without a
    /// sanitizer, any of them works. The error says in a few words which tool is missing.
    pub(super) fn find_or_install() -> Result<Self, String> {
        let found = match env::var(TOOLCHAIN_VARIABLE) {
            Ok(name) => Self::usable(name)?,
            Err(_) => Self::usable("nightly".into()).or_else(|why| {
                let own = env::var("RUSTUP_TOOLCHAIN").ok();
                own.and_then(|own| Self::usable(own).ok()).ok_or(why)
            })?,
        };
        let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
        if find_program(&compiler).is_none() {
            return Err(format!("no C++ compiler `{compiler}`, which libFuzzer is built with"));
        }
        if !found.has_cargo_fuzz() && !install_cargo_fuzz(&found) {
            return Err("no cargo-fuzz, and it cannot be installed".into());
        }
        let mut fetch = found.cargo();
        fetch.args(["fetch", "--quiet", "--manifest-path", MANIFEST]);
        if !fetch.status().is_ok_and(|status| status.success()) {
            return Err("the packages that libFuzzer needs cannot be fetched".into());
        }
        Ok(found)
    }

    fn usable(name: String) -> Result<Self, String> {
        let Some(Rustc { host, minor }) = Rustc::of(&name) else {
            return Err(format!(
                "no toolchain `{name}` (`rustup toolchain install {name}`, or name another in \
                 {TOOLCHAIN_VARIABLE})"
            ));
        };
        let needed = minor_of(env!("CARGO_PKG_RUST_VERSION")).unwrap_or(0);
        if minor < needed {
            return Err(format!(
                "toolchain `{name}` is 1.{minor}, and 1.{needed} is needed (`rustup update {name}`)"
            ));
        }
        Ok(Self { name, host })
    }

    /// Returns the command that builds all targets.
    ///
    /// They are built without a sanitizer, because they have no unsafe code and run six times as fast without
    /// one.
    pub(super) fn build(&self) -> Command {
        let mut command = self.cargo();
        command.args(["fuzz", "build", "--sanitizer=none", "--no-default-features"]);
        command.args(["--target", &self.host]);
        command.args(["--fuzz-dir", "fuzz", "--target-dir"]).arg(target_folder());
        command
    }

    /// Returns the path of a target's program after the build.
    pub(super) fn program(&self, target: &str) -> PathBuf {
        target_folder().join(&self.host).join("release").join(target)
    }

    fn has_cargo_fuzz(&self) -> bool {
        let mut command = self.cargo();
        command.args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn cargo(&self) -> Command {
        rustup_run(&self.name, "cargo")
    }
}

/// Properties of a compiler.
#[derive(Debug, PartialEq, Eq)]
struct Rustc {
    /// The host triple.
    host: String,
    /// The second number of the version.
    minor: u32,
}

impl Rustc {
    /// Returns the properties of a toolchain's compiler, or `None` if it is not installed.
    fn of(toolchain: &str) -> Option<Self> {
        let mut command = rustup_run(toolchain, "rustc");
        let output = command.arg("-vV").stderr(Stdio::null()).output().ok()?;
        Self::read(&String::from_utf8_lossy(&output.stdout))
    }

    fn read(text: &str) -> Option<Self> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        Some(Self { host: value("host: ")?.to_owned(), minor: minor_of(value("release: ")?)? })
    }
}

fn minor_of(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// Returns a command for a program of another toolchain. It removes the variables that the running toolchain
/// has set.
fn rustup_run(name: &str, program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", name, program]).current_dir(workspace_root());
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

fn install_cargo_fuzz(toolchain: &Toolchain) -> bool {
    println!("==> installing cargo-fuzz");
    let installed = cargo(&["install", "cargo-fuzz", "--locked", "--quiet"]).status();
    installed.is_ok_and(|status| status.success()) && toolchain.has_cargo_fuzz()
}

/// Returns a separate target folder, because builds in the same folder would wait for each other.
fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace_root().join(folder).join("fuzz"),
        None => workspace_root().join("fuzz/target"),
    }
}

const TOOLCHAIN_VARIABLE: &str = "FUZZ_TOOLCHAIN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustc_version_output_is_parsed() {
        let text = "rustc 1.97.0-nightly (4d1f98451 2026-05-15)\nbinary: rustc\n\
                    host: x86_64-unknown-linux-gnu\nrelease: 1.97.0-nightly\nLLVM version: 22.1.0\n";
        let host = "x86_64-unknown-linux-gnu".to_owned();
        assert_eq!(Rustc::read(text), Some(Rustc { host, minor: 97 }));
        assert_eq!(Rustc::read(""), None);
        assert_eq!(minor_of(env!("CARGO_PKG_RUST_VERSION")), Some(95));
    }
}
