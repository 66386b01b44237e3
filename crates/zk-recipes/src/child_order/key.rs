//! The sort key of a name, and the conversion between ten digits and a number.

use std::cmp::Ordering;

/// Sort key of a child. Keys are ordered as text, as in Curator.
// Closed: a text either is a number of a server or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceKey<'a> {
    /// Ten digits, as a server appends them. Their order as text is that of their numbers.
    Number(u32),
    /// Any other text: a name of a foreign node, or the number of a server whose counter exceeds 31
    /// bits, such as `-000000005`.
    Text(&'a [u8]),
}

impl<'a> SequenceKey<'a> {
    pub(super) fn of_text(text: &'a [u8]) -> Self {
        let number = <&[u8; DIGITS]>::try_from(text).ok().and_then(parse);
        number.map_or(Self::Text(text), Self::Number)
    }
}

impl Ord for SequenceKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (SequenceKey::Number(a), SequenceKey::Number(b)) => a.cmp(&b),
            (SequenceKey::Text(a), SequenceKey::Text(b)) => a.cmp(b),
            (SequenceKey::Number(a), SequenceKey::Text(b)) => write(a)[..].cmp(b),
            (SequenceKey::Text(a), SequenceKey::Number(b)) => a.cmp(&write(b)[..]),
        }
    }
}

impl PartialOrd for SequenceKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Number of digits of a sequence number.
pub(crate) const DIGITS: usize = 10;

/// Parses ten digits as a `u32`. Returns `None` for any other byte and for a larger number, which
/// no server writes.
pub(super) fn parse(text: &[u8; DIGITS]) -> Option<u32> {
    let [high, low @ ..] = text;
    let [next, rest @ ..] = low;
    let (high, next) = (high.wrapping_sub(b'0'), next.wrapping_sub(b'0'));
    // A first byte that is not a digit makes the number too large for a u32.
    if next > 9 {
        return None;
    }
    let leading = u64::from(high) * 10 + u64::from(next);
    u32::try_from(leading * 100_000_000 + parse_eight(*rest)?).ok()
}

/// Parses eight digits in one word: checks that each byte is a digit, then joins neighbours three
/// times.
fn parse_eight(text: [u8; 8]) -> Option<u64> {
    const HIGH_NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(text);
    // A byte is a digit if its high nibble is 3 and still is 3 after adding 6.
    let shifted = word.wrapping_add(0x0606_0606_0606_0606);
    if word & HIGH_NIBBLES != ZEROS || shifted & HIGH_NIBBLES != ZEROS {
        return None;
    }
    let ones = word & 0x0f0f_0f0f_0f0f_0f0f;
    let twos = (ones.wrapping_mul(10 * 0x100 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100 * 0x1_0000 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 * 0x1_0000_0000 + 1) >> 32)
}

/// Formats a number as ten digits.
pub(super) fn write(mut number: u32) -> [u8; DIGITS] {
    let mut text = [b'0'; DIGITS];
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789".get((number % 10) as usize).copied().unwrap_or(b'0');
        number /= 10;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_accepts_u32_only() {
        assert_eq!(parse(b"0000000000"), Some(0));
        assert_eq!(parse(b"2147483647"), Some(i32::MAX.unsigned_abs()));
        assert_eq!(parse(b"4294967295"), Some(u32::MAX));
        assert_eq!(parse(b"4294967296"), None);
        assert_eq!(parse(b"-000000005"), None);
    }

    #[test]
    fn parse_rejects_non_digits_at_every_position() {
        for place in 0..DIGITS {
            for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                let mut text = *b"0123456789";
                text[place] = byte;
                assert_eq!(parse(&text), None, "{byte:#x} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn parse_reverses_write(number in any::<u32>()) {
            let text = write(number);
            prop_assert_eq!(String::from_utf8_lossy(&text), format!("{number:010}"));
            prop_assert_eq!(parse(&text), Some(number));
        }
    }
}
