//! `cargo xtask test kerberos`: the tests of `zk-gssapi`, in a Kerberos realm of their own.

use std::fs;
use std::path::Path;

use super::set_up;
use crate::tasks::{Failure, cargo, step, workspace_root};
use crate::zookeeper::{KerberosRealm, Privilege, install};

/// Starts a realm on loopback and runs the checks and tests of `zk-gssapi`. `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    set_up()?;
    if !Path::new(HEADER).exists() || !has_libclang() {
        install(&["libkrb5-dev", "libclang-dev"], Privilege::Sudo).map_err(Failure::task)?;
    }
    let realm = KerberosRealm::start(Privilege::Sudo)?;
    let manifest = workspace_root().join("crates/zk-gssapi/Cargo.toml");
    let manifest = manifest.to_string_lossy();
    step(&mut cargo(&["fmt", "--manifest-path", &manifest, "--check"]))?;
    let mut clippy = cargo(&["clippy", "--locked", "--all-targets", "--manifest-path", &manifest]);
    step(clippy.args(["--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--locked", "--no-deps", "--manifest-path", &manifest]);
    step(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut test = cargo(&["test", "--locked", "--manifest-path", &manifest]);
    step(test.args(arguments).envs(realm.environment()).env("CI", "true"))
}

/// The header of the system's library, from which the build generates the binding.
const HEADER: &str = "/usr/include/gssapi/gssapi.h";

/// Returns true if the library that reads the header is installed.
fn has_libclang() -> bool {
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut folders = versions.filter(|it| it.file_name().to_string_lossy().starts_with("llvm-"));
    folders.any(|folder| folder.path().join("lib/libclang.so").exists())
}
