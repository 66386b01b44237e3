//! The environment of a cargo that another cargo has started.

use std::env;
use std::process::Command;

/// Removes the variables that describe the package of the running program.
///
/// Cargo sets them for programs that it runs. Build scripts that read them, as ring's does, run again when
/// they differ: builds from xtask and from tests would compile TLS anew in turns.
pub fn forget_package(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

const PREFIXES: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_NAME", "CARGO_BIN_", "CARGO_PRIMARY_PACKAGE"];
