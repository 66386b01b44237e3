//! Models that several targets share.

/// Decodes text in Java's encoding slowly. It first finds the surrogates, three bytes each: a pair is one
/// character, an unpaired one U+FFFD. The bytes between them are UTF-8; invalid ones are replaced.
pub(crate) fn naive_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let lone = rest.get(..3).and_then(half).filter(|unit| (0xd800..=0xdfff).contains(unit));
        let (character, len) = match (surrogate_pair(rest), lone) {
            (Some(character), _) => (character, 6),
            (None, Some(_)) => (char::REPLACEMENT_CHARACTER, 3),
            (None, None) => {
                at += 1;
                continue;
            }
        };
        text.push_str(&String::from_utf8_lossy(&bytes[start..at]));
        text.push(character);
        at += len;
        start = at;
    }
    text.push_str(&String::from_utf8_lossy(&bytes[start..]));
    text
}

fn half(bytes: &[u8]) -> Option<u16> {
    let [0xed, high, low] = *bytes else { return None };
    let continues = |byte: u8| (0x80..0xc0).contains(&byte);
    (continues(high) && continues(low))
        .then(|| 0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f))
}

fn surrogate_pair(bytes: &[u8]) -> Option<char> {
    let units = [half(bytes.get(..3)?)?, half(bytes.get(3..6)?)?];
    let mut characters = char::decode_utf16(units);
    // Two units in the right order are one character. Any other two are no pair.
    match (characters.next(), characters.next()) {
        (Some(Ok(character)), None) => Some(character),
        _ => None,
    }
}
