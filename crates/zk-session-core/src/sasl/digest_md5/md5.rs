//! MD5 (RFC 1321), only for DIGEST-MD5. MD5 is insecure by today's standards, but servers compare these
//! hashes.

use super::secret::Secret;

/// Length of a hash, in bytes.
pub(super) const HASH_LEN: usize = 16;
const BLOCK_LEN: usize = 64;

/// Returns the hash of the concatenated `parts`.
pub(super) fn md5(parts: &[&[u8]]) -> [u8; HASH_LEN] {
    let mut message = Secret::new(parts.concat());
    let bits = u64::try_from(message.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    message.push(0x80);
    while message.len() % BLOCK_LEN != BLOCK_LEN - size_of::<u64>() {
        message.push(0);
    }
    message.extend(&bits.to_le_bytes());

    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut rest: &[u8] = &message;
    while let Some((block, behind)) = rest.split_first_chunk() {
        mix(&mut state, block);
        rest = behind;
    }
    let mut hash = [0; HASH_LEN];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

/// Mixes one block into the state: section 3.4 of the RFC.
fn mix(state: &mut [u32; 4], block: &[u8; BLOCK_LEN]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, constant) in SINES.into_iter().enumerate() {
        let (f, word, shifts) = match step / 16 {
            0 => ((b & c) | (!b & d), step, [7, 12, 17, 22]),
            1 => ((b & d) | (c & !d), 5 * step + 1, [5, 9, 14, 20]),
            2 => (b ^ c ^ d, 3 * step + 5, [4, 11, 16, 23]),
            _ => (c ^ (b | !d), 7 * step, [6, 10, 15, 21]),
        };
        let sum = a.wrapping_add(f).wrapping_add(words[word % 16]).wrapping_add(constant);
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(shifts[step % 4])));
    }
    for (sum, value) in state.iter_mut().zip([a, b, c, d]) {
        *sum = sum.wrapping_add(value);
    }
}

/// The integer parts of 2^32 times |sin n|, for n from 1 to 64 in radians.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Test suite of RFC 1321, appendix A.5.
    #[test]
    fn hashes_match_the_rfc_vectors() {
        let digits =
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            let hash = md5(&[text.as_bytes()]);
            let shown: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn hash_of_parts_is_that_of_their_concatenation() {
        let text = [7; 130];
        for at in 0..text.len() {
            let (front, back) = text.split_at(at);
            assert_eq!(md5(&[front, back]), md5(&[&text]));
        }
    }
}
