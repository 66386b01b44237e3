//! Output of untrusted text, such as a path, in a one-line message.

use std::fmt::{self, Write};

/// The maximum number of characters of a path in a message, before some are escaped. A path may be as long
/// as a frame, and a message should stay readable.
pub const ABBREVIATED_LEN_MAX: usize = 240;

/// Text printed on one line.
///
/// Control characters are escaped. Of more than [`ABBREVIATED_LEN_MAX`] characters, only the beginning and
/// the end are printed, because the end has the name of the node.
///
/// ```
/// use zk_proto::{ABBREVIATED_LEN_MAX, Abbreviated};
///
/// assert_eq!(Abbreviated("/a\nb").to_string(), "/a\\nb");
/// let long = Abbreviated(&"/abc".repeat(1000)).to_string();
/// assert_eq!(long.chars().count(), ABBREVIATED_LEN_MAX);
/// assert!(long.starts_with("/abc") && long.contains('…') && long.ends_with("/abc"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Abbreviated<'a>(pub &'a str);

impl fmt::Display for Abbreviated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.char_indices().nth(ABBREVIATED_LEN_MAX).is_none() {
            return escaped(self.0, f);
        }
        let head = self.0.char_indices().nth(ABBREVIATED_LEN_MAX / 2).map_or(0, |(at, _)| at);
        let tail =
            self.0.char_indices().nth_back(ABBREVIATED_LEN_MAX - ABBREVIATED_LEN_MAX / 2 - 2);
        escaped(&self.0[..head], f)?;
        f.write_char('…')?;
        escaped(&self.0[tail.map_or(0, |(at, _)| at)..], f)
    }
}

fn escaped(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in text.chars() {
        if c.is_control() {
            write!(f, "{}", c.escape_default())?;
        } else {
            f.write_char(c)?;
        }
    }
    Ok(())
}
