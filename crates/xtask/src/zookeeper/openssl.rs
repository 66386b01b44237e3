//! The program `openssl`, a peer for TLS that is neither rustls nor Java.

use std::path::PathBuf;

use super::{Error, Privilege, install};
use crate::process::find_program;

/// Finds the program `openssl`, or installs it if the rights of this process suffice. Debian's Java
/// depends on it.
///
/// # Errors
/// The program is missing, and cannot be installed.
pub fn ensure_openssl() -> Result<PathBuf, Error> {
    let find = || find_program("openssl");
    let installed = match find() {
        Some(_) => Ok(()),
        None => install(&["openssl"], Privilege::Own),
    };
    find().ok_or_else(|| {
        let why = installed.err().unwrap_or_default();
        Error::unsupported(format!("no `openssl` here: {why}"))
    })
}
