//! Fuzz target for paths, against the rules of the Java client.
//!
//! Input: a path; invalid UTF-8 is replaced.

use zk_proto::path::{file_name, parent};
use zk_proto::{PathError, PathErrorKind, validate_path, validate_sequential_path};

/// Checks a path and splits it.
pub fn run(data: &[u8]) {
    let path = &*String::from_utf8_lossy(data);
    let checked = validate_path(path);
    assert_eq!(checked.is_ok(), java_takes(path), "{checked:?}");
    // The Java client appends a digit to the path before it checks it.
    let sequential = validate_sequential_path(path);
    assert_eq!(sequential.is_ok(), java_takes(&format!("{path}1")), "{sequential:?}");
    for error in [checked.clone().err(), sequential.clone().err()].into_iter().flatten() {
        is_true(error, path);
    }

    let name = file_name(path);
    assert!(path.ends_with(name) && !name.contains('/'));
    if let (Some(parent), true) = (parent(path), checked.is_ok() || sequential.is_ok()) {
        let between = if parent == "/" { "" } else { "/" };
        assert_eq!(format!("{parent}{between}{name}"), path);
    }
    if checked.is_ok() {
        assert_eq!(parent(path).is_none(), path == "/");
        assert!(parent(path).is_none_or(|parent| validate_path(parent).is_ok()));
        assert_eq!(name.is_empty(), path == "/");
    }
}

/// Checks that an error points to a violation, and that it is the first one.
fn is_true(error: PathError, path: &str) {
    assert!(!error.to_string().is_empty());
    let (before, at) = path.split_at(error.offset);
    match error.kind {
        PathErrorKind::NotAbsolute => assert!(error.offset == 0 && !path.starts_with('/')),
        PathErrorKind::TrailingSlash => assert!(before.ends_with('/') && at.is_empty()),
        PathErrorKind::EmptyComponent => assert!(before.ends_with('/') && at.starts_with('/')),
        PathErrorKind::RelativeComponent => {
            let component = at.split('/').next().unwrap_or_default();
            assert!(before.ends_with('/') && [".", ".."].contains(&component));
        }
        PathErrorKind::IllegalCharacter(character) => assert!(at.starts_with(character)),
        _ => {}
    }
    if !before.is_empty() && before != "/" {
        let whole = before.strip_suffix('/').unwrap_or(before);
        let component = whole.rsplit('/').next().unwrap_or_default();
        let cut = error.kind != PathErrorKind::TrailingSlash && [".", ".."].contains(&component);
        assert!(cut || java_takes(whole), "there is an earlier one in {before:?}");
    }
}

/// `PathUtils.validatePath`, step by step.
fn java_takes(path: &str) -> bool {
    let chars: Vec<u16> = path.encode_utf16().collect();
    let (slash, dot) = (u16::from(b'/'), u16::from(b'.'));
    let is = |at: usize, wanted: u16| chars.get(at) == Some(&wanted);
    if !is(0, slash) {
        return false;
    }
    if chars.len() == 1 {
        return true;
    }
    if chars.last() == Some(&slash) {
        return false;
    }
    (1..chars.len()).all(|at| {
        let ends = at + 1 == chars.len() || is(at + 1, slash);
        match chars[at] {
            0 => false,
            c if c == slash => !is(at - 1, slash),
            c if c == dot && is(at - 1, dot) => !(is(at - 2, slash) && ends),
            c if c == dot => !(is(at - 1, slash) && ends),
            0x1..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff => false,
            _ => true,
        }
    })
}
