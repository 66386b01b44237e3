//! `cargo xtask msrv`: a check with the oldest supported compiler, 1.85.
//!
//! Debian 12 has it in the package `rustc-web`, which conflicts with rustup. Therefore the packages are
//! unpacked into a folder and not installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{
    COMMAND, Failure, LIBRARIES, gssapi, package_options, step, target_folder, workspace_root,
};
use crate::zookeeper::{Privilege, install};

/// Checks packages with their locked dependencies: those in `names`, or all library crates and the command,
/// and `zk-gssapi` if it can be built here.
pub(crate) fn run(names: &[String]) -> Result<(), Failure> {
    let folder = target_folder().join("msrv");
    let programs = folder.join("usr/bin");
    if !programs.join("cargo").exists() && !unpack(&folder)? {
        return Ok(());
    }
    let check = || {
        let mut check = Command::new(programs.join("cargo"));
        check.args(["check", "--locked", "--target-dir"]).arg(folder.join("target"));
        check.env("LD_LIBRARY_PATH", folder.join("usr/lib/x86_64-linux-gnu"));
        check.env("RUSTC", programs.join("rustc")).env_remove("RUSTUP_TOOLCHAIN");
        check.current_dir(workspace_root());
        check
    };
    if !names.is_empty() {
        return step(check().args(names.iter().flat_map(|name| ["--package", name])));
    }
    step(check().args(package_options(&LIBRARIES)).args(package_options(&[COMMAND])))?;
    if gssapi::can_build() {
        step(check().args(["--manifest-path", gssapi::MANIFEST]))
    } else {
        Ok(())
    }
}

/// Installs the shared libraries that the compiler needs, and unpacks the compiler itself. Returns false
/// if the packages are not available, as on other systems than Debian 12.
fn unpack(folder: &Path) -> Result<bool, Failure> {
    if let Err(reason) = install(&SHARED_LIBRARIES, Privilege::Sudo) {
        println!("==> skipped: no Rust 1.85: {reason}");
        return Ok(false);
    }
    // An interrupted run leaves old or incomplete packages behind.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)
        .map_err(|error| Failure::task(format!("{}: {error}", folder.display())))?;
    let mut download = Command::new("apt-get");
    if step(download.args(["download", "-q"]).args(COMPILER).current_dir(folder)).is_err() {
        println!("==> skipped: no Rust 1.85: `apt-get download {}` failed", COMPILER.join(" "));
        return Ok(false);
    }
    let unpack_all =
        "for package in *.deb; do dpkg -x \"$package\" unpacked || exit; done; mv unpacked/usr .";
    step(Command::new("sh").args(["-c", unpack_all]).current_dir(folder))?;
    Ok(true)
}

/// Debian's security updates contain a later version of each.
const COMPILER: [&str; 4] = [
    "rustc-web=1.85.*",
    "cargo-web=1.85.*",
    "libstd-rust-web-dev=1.85.*",
    "libstd-rust-web-1.85=1.85.*",
];
const SHARED_LIBRARIES: [&str; 3] = ["libllvm19", "libpcre3", "libhttp-parser2.9"];
