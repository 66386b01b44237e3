//! SHA-1 (RFC 3174), only for the ids of digest ACLs. SHA-1 is insecure by today's standards, but servers
//! compare these hashes.

/// Length of a hash, in bytes.
const HASH_LEN: usize = 20;
const BLOCK_LEN: usize = 64;

/// Returns the hash of the concatenated `parts`.
pub(crate) fn sha1(parts: &[&[u8]]) -> [u8; HASH_LEN] {
    let mut message = parts.concat();
    let bits = u64::try_from(message.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    message.push(0x80);
    while message.len() % BLOCK_LEN != BLOCK_LEN - size_of::<u64>() {
        message.push(0);
    }
    message.extend_from_slice(&bits.to_be_bytes());

    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut rest = message.as_slice();
    while let Some((block, behind)) = rest.split_first_chunk() {
        mix(&mut state, block);
        rest = behind;
    }
    let mut hash = [0; HASH_LEN];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

/// Mixes one block into the state: section 6.1 of the RFC.
fn mix(state: &mut [u32; 5], block: &[u8; BLOCK_LEN]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for t in 16..80 {
        words[t] = (words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]).rotate_left(1);
    }

    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (t, word) in words.into_iter().enumerate() {
        let (f, k) = match t {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next =
            a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(word).wrapping_add(k);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(hash: [u8; HASH_LEN]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Test vectors of RFC 3174, section 7.3, and the empty message.
    #[test]
    fn hash_matches_the_rfc_vectors() {
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let ten = "0123456701234567012345670123456701234567012345670123456701234567".repeat(10);
        for (message, expected) in [
            ("abc".to_owned(), "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (long.to_owned(), "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
            ("a".repeat(1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
            (ten, "dea356a2cddd90c7a7ecedc5ebb563934f460452"),
            (String::new(), "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ] {
            assert_eq!(hex(sha1(&[message.as_bytes()])), expected);
        }
    }

    #[test]
    fn hash_of_parts_equals_hash_of_their_concatenation() {
        let whole: Vec<u8> = (0..=255).collect();
        for at in [0, 1, 55, 56, 63, 64, 65, 119, 120, 256] {
            let (left, right) = whole.split_at(at);
            assert_eq!(sha1(&[left, right]), sha1(&[&whole]));
        }
    }

    /// From 56 bytes on, the padding takes one more block.
    #[test]
    fn hash_is_correct_around_a_block_boundary() {
        for (len, expected) in [
            (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
        ] {
            assert_eq!(hex(sha1(&["a".repeat(len).as_bytes()])), expected);
        }
    }
}
