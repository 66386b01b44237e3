//! Paths of nodes: their parts, the rules for them, and the error for a path that violates one.

use std::{error::Error, fmt};

use crate::abbreviated::Abbreviated;

/// Returns the parent's path, or `None` for the root and for a path that does not start with `/`.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) if parent.starts_with('/') => Some(parent),
        _ => None,
    }
}

/// Returns the last component, which is the node's name in its parent. It is empty for the root.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns the path of a child.
#[must_use]
pub fn child(parent: &str, name: &str) -> String {
    [parent.trim_end_matches('/'), "/", name].concat()
}

/// Start of the names of nodes that are created with Curator's protection.
pub const PROTECTION: &str = "_c_";

/// Returns the prefix of the names of one protected node, which is `_c_<id>-`. It identifies the node
/// if the reply to its creation was lost. Curator's ids are UUIDs.
///
/// ```
/// let prefix = zk_proto::path::protection_prefix("0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de");
/// assert_eq!(prefix, "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-");
/// ```
#[must_use]
pub fn protection_prefix(id: &str) -> String {
    [PROTECTION, id, "-"].concat()
}

/// Checks a path by the rules of the server's `validatePath`, which the Java client shares.
///
/// * A path starts with `/` and does not end with `/`, except for the root.
/// * No component is empty, `.` or `..`.
/// * No character is in U+0000–U+001F, U+007F–U+009F, U+E000–U+F8FF or U+FFF0–U+FFFF.
/// * No character is beyond U+FFFF. Java represents these as surrogates, which are rejected.
///
/// Only the frame limits the length of a path.
///
/// ```
/// use zk_proto::{PathErrorKind, validate_path};
///
/// assert_eq!(validate_path("/locks/a"), Ok(()));
/// let error = validate_path("/locks//a").unwrap_err();
/// assert_eq!((error.kind, error.offset), (PathErrorKind::EmptyComponent, 7));
/// assert_eq!(error.to_string(), r#"path "/locks//a" has an empty component (at byte 7)"#);
/// ```
///
/// # Errors
///
/// [`PathError`] for the leftmost violation.
pub fn validate_path(path: &str) -> Result<(), PathError> {
    if path == "/" { Ok(()) } else { check(path, NameEnd::AsGiven) }
}

/// Checks a path to which the server appends a sequence number.
///
/// The rules apply to the name with the number. The last component may therefore be empty (`/a/` becomes
/// `/a/0000000000`), `.` or `..`.
///
/// # Errors
///
/// [`PathError`] for the leftmost violation.
pub fn validate_sequential_path(path: &str) -> Result<(), PathError> {
    check(path, NameEnd::NumberFollows)
}

/// Violation of a path rule. `Debug` prints the same line as `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct PathError {
    /// The violated rule.
    pub kind: PathErrorKind,
    /// The offset in the path, in bytes, of the illegal character or of the illegal component.
    pub offset: usize,
    /// The path as printed in messages, see [`Abbreviated`].
    path: Box<str>,
}

impl PathError {
    fn new(path: &str, (kind, offset): (PathErrorKind, usize)) -> Self {
        Self { kind, offset, path: Abbreviated(path).to_string().into() }
    }

    /// Returns the path on one line, shortened to [`ABBREVIATED_LEN_MAX`](crate::ABBREVIATED_LEN_MAX)
    /// characters before control characters are escaped.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Rule that a path violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// The path does not start with `/`.
    NotAbsolute,
    /// The path ends with `/`.
    TrailingSlash,
    /// The path has nothing between two slashes.
    EmptyComponent,
    /// The path has a component `.` or `..`.
    RelativeComponent,
    /// The path has a character that is not allowed.
    IllegalCharacter(char),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path \"{}\" ", self.path)?;
        self.kind.write_broken_rule(f)?;
        write!(f, " (at byte {})", self.offset)
    }
}

impl fmt::Debug for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PathErrorKind {
    fn write_broken_rule(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("does not start with '/'"),
            Self::TrailingSlash => f.write_str("ends with '/'"),
            Self::EmptyComponent => f.write_str("has an empty component"),
            Self::RelativeComponent => f.write_str("has a component '.' or '..'"),
            Self::IllegalCharacter(c) => {
                write!(f, "has the illegal character {}", c.escape_unicode())
            }
        }
    }
}

impl fmt::Display for PathErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("path ")?;
        self.write_broken_rule(f)
    }
}

impl Error for PathError {}

/// State of the last component: complete, or to be followed by a sequence number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameEnd {
    AsGiven,
    NumberFollows,
}

fn check(path: &str, end: NameEnd) -> Result<(), PathError> {
    if is_plain(path) {
        return Ok(());
    }
    let Some(relative) = path.strip_prefix('/') else {
        return Err(PathError::new(path, (PathErrorKind::NotAbsolute, 0)));
    };
    let mut offset = 1;
    for component in relative.split('/') {
        let position = match (offset + component.len() == path.len(), end) {
            (false, _) => Position::Inner,
            (true, NameEnd::AsGiven) => Position::Last,
            (true, NameEnd::NumberFollows) => Position::BeforeNumber,
        };
        check_component(component, position)
            .map_err(|(kind, at)| PathError::new(path, (kind, offset + at)))?;
        offset += component.len() + 1;
    }
    Ok(())
}

/// Returns whether the path is legal by a simple check, as nearly every path is: ASCII without control
/// characters, slashes only in front of names, and no name that begins with a dot.
///
/// It looks at all bytes even if an early one is illegal, because the compiler then compares many at once.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let printable = bytes.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    let names = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    let named =
        names.fold(true, |all, (byte, next)| all & !(*byte == b'/' && matches!(next, b'/' | b'.')));
    printable & named && path.starts_with('/') && !path.ends_with('/')
}

/// Position of a component in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Other components follow.
    Inner,
    Last,
    /// The last one, to be followed by a sequence number.
    BeforeNumber,
}

/// Checks one component. An error's offset is relative to the component. For an empty component it is that of
/// the following slash, or of the end of the path.
fn check_component(component: &str, position: Position) -> Result<(), (PathErrorKind, usize)> {
    let illegal = component.char_indices().find(|&(_, c)| is_illegal(c));
    match (component, illegal) {
        (_, Some((at, c))) => Err((PathErrorKind::IllegalCharacter(c), at)),
        _ if position == Position::BeforeNumber => Ok(()),
        ("", _) if position == Position::Last => Err((PathErrorKind::TrailingSlash, 0)),
        ("", _) => Err((PathErrorKind::EmptyComponent, 0)),
        ("." | "..", _) => Err((PathErrorKind::RelativeComponent, 0)),
        _ => Ok(()),
    }
}

fn is_illegal(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fff0}'..='\u{10ffff}')
}
