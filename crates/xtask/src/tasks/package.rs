//! `cargo xtask package`: packages as they would be published.

use std::process::Command;

use super::{
    COMMAND, Failure, LIBRARIES, bill, cargo, output_of, package_options, step, target_folder,
};

/// Packs the library crates and the command, and builds each from its package.
///
/// Cargo takes the other packages from a local registry, because they are not published yet.
pub(crate) fn run() -> Result<(), Failure> {
    pack(&[])
}

/// Packs them, and builds nothing. The builds take more than a minute.
pub(crate) fn run_without_build() -> Result<(), Failure> {
    pack(&["--no-verify"])
}

fn pack(options: &[&str]) -> Result<(), Failure> {
    // A tree with uncommitted changes is packed as it is.
    let mut package = cargo(&["package", "--quiet", "--allow-dirty"]);
    package.args(options).args(package_options(&LIBRARIES)).args(package_options(&[COMMAND]));
    step(&mut package)?;
    LIBRARIES.iter().chain([&COMMAND]).try_for_each(|name| {
        check_text(name, "LICENSE", "Apache License")?;
        check_text(name, "README.md", "# ")
    })?;
    bill::write()
}

/// Checks that a file in a package begins with `start`. A broken link would be packed as a path.
fn check_text(package: &str, file: &str, start: &str) -> Result<(), Failure> {
    let folder = format!("{package}-{}", env!("CARGO_PKG_VERSION"));
    let archive = target_folder().join(format!("package/{folder}.crate"));
    let mut tar = Command::new("tar");
    let text = output_of(tar.arg("-xzOf").arg(archive).arg(format!("{folder}/{file}")))?;
    if text.trim_start().starts_with(start) {
        return Ok(());
    }
    Err(Failure::task(format!("{file} in the package {package} does not begin with `{start}`")))
}
