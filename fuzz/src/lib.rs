//! Fuzz targets: one function each that takes arbitrary bytes and asserts properties.
//!
//! This library does not depend on a fuzzer. The binaries under `fuzz_targets` pass the functions to
//! libFuzzer if cargo-fuzz builds them, and replay files otherwise. `tests/corpora.rs` replays the committed
//! corpora. See `README.md`.

#![forbid(unsafe_code)]

pub mod acl_ids;
pub mod children;
pub mod connect;
pub mod connect_string;
pub mod digest_md5;
pub mod frames;
pub mod multi;
pub mod notification;
pub mod paths;
pub mod replay;
pub mod replies;
pub mod requests;
pub mod round_trip;
pub mod session;
pub mod srv;

mod build;
mod input;
mod memory;
mod model;
mod records;

pub use input::Input;

/// Fuzz target, with the name of its binary and its corpus.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the binary and the corpus.
    pub name: &'static str,
    /// Runs the target on arbitrary bytes; panics if an assertion fails.
    pub run: fn(&[u8]),
}

/// Lists the targets by the names of their modules.
macro_rules! targets {
    ($($name:ident)*) => {
        /// All targets.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run }),*];
    };
}

targets! {
    frames replies requests notification connect multi children round_trip paths acl_ids
    digest_md5 connect_string session srv
}

/// Defines the `main` of a target: libFuzzer's if cargo-fuzz builds it, else a replayer. The replayer runs
/// the files and folders given as arguments, or the target's corpus.
#[macro_export]
macro_rules! fuzz_target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$name::run(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay::main(stringify!($name), std::env::args_os().skip(1))
        }
    };
}
