//! `cargo xtask`: the development tasks of this workspace. See `xtask::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::cli::run(std::env::args())
}
