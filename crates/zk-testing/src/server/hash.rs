//! Hasher that is fast on short keys and gives the same result in every run.
//!
//! Only tests fill these tables, so the hasher needs no protection against deliberate collisions.
//! It is deterministic, so that the same requests give the same server, including the order of its
//! tables.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Map with that hasher.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Multiply-and-rotate hasher that processes eight bytes at a time.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

const FACTOR: u64 = 0x517c_c1b7_2722_0a95;

impl FastHasher {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((word, behind)) = rest.split_first_chunk() {
            self.mix(u64::from_le_bytes(*word));
            rest = behind;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_i64(&mut self, word: i64) {
        self.mix(u64::from_ne_bytes(word.to_ne_bytes()));
    }

    fn finish(&self) -> u64 {
        // The table takes its bits from both ends.
        self.0 ^ self.0.rotate_right(29)
    }
}
