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

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions with the same seed would choose the same ids for their lock nodes.
    #[test]
    fn entropy_fills_both_halves_and_never_repeats() {
        let halves = |drawn: u128| [drawn >> 64, drawn & u128::from(u64::MAX)];
        let (first, second) = (halves(entropy()), halves(entropy()));
        for (first, second) in first.into_iter().zip(second) {
            assert!(first > 0 && second > 0 && first != second, "{first:#x} {second:#x}");
        }
    }
}
