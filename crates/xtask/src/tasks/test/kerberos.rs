//! `cargo xtask test kerberos`: the tests of `zk-gssapi`, in a Kerberos realm of their own.

use std::fs;
use std::path::Path;

use super::set_up;
use crate::tasks::{Failure, cargo_for, step};
use crate::zookeeper::{KerberosRealm, Privilege, install};

/// Starts a realm on loopback and runs the checks and tests of `zk-gssapi`. `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    set_up()?;
    if !Path::new(HEADER).exists() || !has_libclang() {
        install(&["libkrb5-dev", "libclang-dev"], Privilege::Sudo).map_err(Failure::task)?;
    }
    let realm = KerberosRealm::start(Privilege::Sudo)?;
    step(&mut cargo_for(MANIFEST, &["fmt", "--check"]))?;
    let mut clippy = cargo_for(MANIFEST, &["clippy", "--locked", "--all-targets"]);
    step(clippy.args(["--", "-D", "warnings"]))?;
    let mut doc = cargo_for(MANIFEST, &["doc", "--locked", "--no-deps"]);
    step(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut test = cargo_for(MANIFEST, &["test", "--locked"]);
    step(test.args(arguments).envs(realm.environment()).env("CI", "true"))
}

const MANIFEST: &str = "crates/zk-gssapi/Cargo.toml";

/// The header of the system's library, from which the build generates the binding.
const HEADER: &str = "/usr/include/gssapi/gssapi.h";

/// Returns true if the library that reads the header is installed.
fn has_libclang() -> bool {
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut folders = versions.filter(|it| it.file_name().to_string_lossy().starts_with("llvm-"));
    folders.any(|folder| folder.path().join("lib/libclang.so").exists())
}
