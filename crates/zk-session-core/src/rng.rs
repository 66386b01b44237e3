//! Random numbers of the session: host order, back-off jitter, contender ids.
//!
//! The generator is seeded once, at construction, so a test that prints its seed can be replayed.
//! The numbers are not suitable for secrets.

use std::time::Duration;

/// Random number generator of the kind xoroshiro128++.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    s0: u64,
    s1: u64,
}

impl Rng {
    /// Creates a generator and spreads `seed` over its state. Any seed is valid, including zero.
    pub(crate) fn new(seed: u128) -> Self {
        let bytes = seed.to_le_bytes();
        let (low, high) = bytes.split_at(8);
        let half = |half: &[u8]| half.iter().rev().fold(0, |n, b| (n << 8) | u64::from(*b));
        let mut rng =
            Self { s0: half(low) ^ 0x9e37_79b9_7f4a_7c15, s1: half(high) ^ 0xbf58_476d_1ce4_e5b9 };
        if rng.s0 == 0 && rng.s1 == 0 {
            rng.s0 = 1; // the all-zero state is the generator's only fixed point
        }
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        let (s0, mut s1) = (self.s0, self.s1);
        let result = s0.wrapping_add(s1).rotate_left(17).wrapping_add(s0);
        s1 ^= s0;
        self.s0 = s0.rotate_left(49) ^ s1 ^ (s1 << 21);
        self.s1 = s1.rotate_left(28);
        result
    }

    /// Returns a number below `bound`, or 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The modulo bias is below 2^-40 for every bound this crate uses.
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns a duration below `bound`, to the microsecond.
    pub(crate) fn duration_below(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(bound.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Returns a version-4 UUID as 36 lower-case characters. Curator's `ProtectedUtils` recognizes a
    /// protected node by such an id in its name.
    pub(crate) fn uuid(&mut self) -> String {
        let high = (self.next() & !0xf000) | 0x4000;
        let low = (self.next() & (u64::MAX >> 2)) | (1 << 63);
        let mut text = [b'-'; 36];
        let mut at = 0;
        for byte in high.to_be_bytes().into_iter().chain(low.to_be_bytes()) {
            if matches!(at, 8 | 13 | 18 | 23) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 0xf)];
            at += 2;
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns 63 random bits as 16 hexadecimal digits. The highest bit is set, so the id is never a zxid.
    pub(crate) fn short_id(&mut self) -> String {
        format!("{:016x}", self.next() | 1 << 63)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rng_sequence_depends_only_on_the_seed() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(7), draw(7 << 64));
        assert_ne!(draw(0), vec![0; 8]);
    }

    #[test]
    fn uuid_has_the_format_that_curator_parses() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let uuid = rng.uuid();
            let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
            assert_eq!(uuid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
            assert!(uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()));
            assert_eq!(uuid, uuid.to_lowercase());
        }
    }

    #[test]
    fn short_id_is_one_random_number() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let (mut bits, id) = (rng.clone(), rng.short_id());
            let expected = bits.next() | 1 << 63;
            assert_eq!((id.len(), u64::from_str_radix(&id, 16)), (16, Ok(expected)), "{id}");
        }
    }

    /// The values are those of the generator's reference implementation.
    #[test]
    fn rng_sequence_is_that_of_xoroshiro128pp() {
        let mut rng = Rng::new(7);
        let drawn = [rng.next(), rng.next(), rng.next()];
        assert_eq!(drawn, [0xc5cf_2710_5c14_fb41, 0x80d5_7b60_b66c_ee60, 0x3f53_de2f_50b5_c8af]);
    }
}
