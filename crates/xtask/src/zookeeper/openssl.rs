//! The program `openssl`, a peer for TLS that is neither rustls nor Java.

use std::path::PathBuf;

use super::{Error, Privilege, install};
use crate::process::find_program;

/// Finds the program `openssl`, or installs it if the rights of the test suffice. Debian's Java
/// depends on it.
///
/// # Errors
/// The program is missing, and cannot be installed.
pub fn ensure_openssl() -> Result<PathBuf, Error> {
    let find = || find_program("openssl");
    let installed = match find() {
        Some(_) => Ok(()),
        None => install(&["openssl"], Privilege::of_tests()),
    };
    find().ok_or_else(|| {
        let why = installed.err().unwrap_or_default();
        Error::unsupported(format!("no `openssl` here: {why}"))
    })
}
