//! What is fuzzed: one function for each target that takes any bytes and asserts something.
//!
//! Nothing in this library knows of a fuzzer. The binaries under `fuzz_targets` hand the functions to
//! libFuzzer when cargo-fuzz builds them, and are replayers of files otherwise; `tests/corpora.rs`
//! replays the committed corpora. See `README.md`.

#![forbid(unsafe_code)]

pub mod acl_ids;
pub mod children;
pub mod connect;
pub mod connect_string;
pub mod frames;
pub mod multi;
pub mod notification;
pub mod paths;
pub mod replay;
pub mod replies;
pub mod requests;
pub mod round_trip;
pub mod session;

mod build;
mod input;
mod memory;
mod model;
mod records;

pub use input::Input;

/// A function under fuzzing, with the name of its binary and its corpus.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// Takes any bytes; panics if something does not hold.
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
    connect_string session
}

/// The `main` of a target: libFuzzer's when cargo-fuzz builds it, else one that replays the files
/// and folders given as arguments, or the target's corpus.
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
