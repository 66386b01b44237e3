//! Randomness from the operating system.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns 128 random bits. The standard library seeds its hash maps from the operating system,
/// once per thread; the process id distinguishes a forked child.
pub(crate) fn entropy() -> u128 {
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        u128::from(hasher.finish())
    };
    (half() << 64) | half()
}
