//! Random ids of instances.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Returns a random UUID, the default id of an instance in Curator.
///
/// The hash keys of the standard library come from the operating system. Other processes cannot
/// guess them, and that is enough for an id: it only has to be unique.
pub(super) fn random_id() -> String {
    let keys = RandomState::new();
    let (high, low) = (keys.hash_one(0), keys.hash_one(1));
    let version_4 = (high & !0xf000) | 0x4000;
    let variant_1 = (low & !(0b11 << 62)) | (0b10 << 62);
    let hex = format!("{version_4:016x}{variant_1:016x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_uuids_of_version_4() {
        let (one, other) = (random_id(), random_id());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&one[14..15], "4");
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"), "{one}");
    }
}
