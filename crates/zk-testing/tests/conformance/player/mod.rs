//! Scripts of requests, a player of them, and the answers of real servers in files.
//!
//! `cargo xtask conform` includes this module to play the scripts at a real server.

#![allow(clippy::expect_used, reason = "the parser has read every script before it is played")]

mod message;
mod normal;
pub(crate) mod play;
pub(crate) mod random;
pub(crate) mod recorded;
pub(crate) mod script;
pub(crate) mod side;

use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Root of the nodes of every script.
pub(crate) const ROOT: &str = "/r";

/// Password of the user `super`. This user has all permissions at both servers.
const SUPER_PASSWORD: &str = "everything";

/// Returns the digest by which a server recognises the administrator's password.
pub(crate) fn super_digest() -> String {
    proto::digest_id("super", SUPER_PASSWORD)
}
