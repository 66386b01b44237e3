//! Output of untrusted text, such as a path, in a one-line message.

use std::fmt::{self, Write};

/// The maximum number of characters of a path in a message. A path may be as long as a frame, and a message
/// should stay readable.
pub const SHOWN_MAX: usize = 240;

/// Text printed on one line.
///
/// Control characters are escaped. Of more than [`SHOWN_MAX`] characters, only the beginning and the end are
/// printed, because the end has the name of the node.
///
/// ```
/// use zk_proto::{SHOWN_MAX, Shown};
///
/// assert_eq!(Shown("/a\nb").to_string(), "/a\\nb");
/// let long = Shown(&"/abc".repeat(1000)).to_string();
/// assert_eq!(long.chars().count(), SHOWN_MAX);
/// assert!(long.starts_with("/abc") && long.contains('…') && long.ends_with("/abc"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.char_indices().nth(SHOWN_MAX).is_none() {
            return escaped(self.0, f);
        }
        let head = self.0.char_indices().nth(SHOWN_MAX / 2).map_or(0, |(at, _)| at);
        let tail = self.0.char_indices().nth_back(SHOWN_MAX - SHOWN_MAX / 2 - 2);
        escaped(&self.0[..head], f)?;
        f.write_char('…')?;
        escaped(&self.0[tail.map_or(0, |(at, _)| at)..], f)
    }
}

fn escaped(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in text.chars() {
        match c.is_control() {
            true => write!(f, "{}", c.escape_default())?,
            false => f.write_char(c)?,
        }
    }
    Ok(())
}
