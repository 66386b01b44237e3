//! The package `zk-gssapi`, a workspace of its own, which needs the system's library.

use std::fs;
use std::path::Path;

pub(super) const PACKAGE: &str = "zk-gssapi";
pub(super) const MANIFEST: &str = "crates/zk-gssapi/Cargo.toml";

/// Returns true if the header of the system's library is installed, and the library that reads it. The
/// build generates the binding from the header.
pub(super) fn can_build() -> bool {
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut folders =
        versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm-"));
    Path::new("/usr/include/gssapi/gssapi.h").exists()
        && folders.any(|folder| folder.path().join("lib/libclang.so").exists())
}
