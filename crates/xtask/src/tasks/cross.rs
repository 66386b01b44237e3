//! `cargo xtask cross`: checks for other operating systems.

use super::{Failure, LIBRARIES, cargo, package_options, step, sysroot};

/// Checks the library crates for each target that the toolchain has, and prints which targets it lacks.
///
/// A check needs the target's standard library, but no linker.
pub(crate) fn run() -> Result<(), Failure> {
    let installed = sysroot()?.join("lib/rustlib");
    let mut skipped = Vec::new();
    for (target, packages) in TARGETS {
        if installed.join(target).join("lib").is_dir() {
            step(cargo(&["check", "--target", target]).args(package_options(packages)))?;
        } else {
            skipped.push(target);
        }
    }
    if !skipped.is_empty() {
        let targets = skipped.join(" ");
        println!("==> not checked: {targets} (`rustup target add {targets}`)");
    }
    Ok(())
}

/// Targets, each with the crates that support it. Only `zk-proto` needs neither sockets nor threads.
const TARGETS: [(&str, &[&str]); 4] = [
    ("x86_64-pc-windows-gnu", &LIBRARIES),
    ("x86_64-pc-windows-msvc", &LIBRARIES),
    ("aarch64-apple-darwin", &LIBRARIES),
    ("wasm32-unknown-unknown", &["zk-proto"]),
];
