//! Tests of the server's path rules, at their boundaries.

mod support;

use proptest::prelude::*;
use zk_proto::{
    ABBREVIATED_LEN_MAX, PathError,
    PathErrorKind::{self, *},
    path::{child, file_name, parent, protection_prefix},
    validate_path, validate_sequential_path,
};

fn broken(path: &str) -> Option<(PathErrorKind, usize)> {
    validate_path(path).err().map(|PathError { kind, offset, .. }| (kind, offset))
}

#[test]
fn legal_paths_pass() {
    for path in ["/", "/a", "/a/b", "/...", "/a..b/.c", "/ ", "/zookeeper/foo", "/-0000000001"] {
        assert_eq!(broken(path), None, "{path}");
    }
}

#[test]
fn illegal_path_error_has_rule_and_offset() {
    for (path, kind, offset) in [
        ("", NotAbsolute, 0),
        ("a", NotAbsolute, 0),
        ("a/b", NotAbsolute, 0),
        ("/a/", TrailingSlash, 3),
        ("//", EmptyComponent, 1),
        ("//a", EmptyComponent, 1),
        ("/a//b", EmptyComponent, 3),
        ("/.", RelativeComponent, 1),
        ("/a/..", RelativeComponent, 3),
        ("/./a", RelativeComponent, 1),
        ("/é/../b", RelativeComponent, 4),
        ("/a/b\0", IllegalCharacter('\0'), 4),
        ("/é\u{80}", IllegalCharacter('\u{80}'), 3),
    ] {
        assert_eq!(broken(path), Some((kind, offset)), "{path:?}");
    }
}

#[test]
fn character_rules_hold_at_range_boundaries() {
    let legal = [' ', '~', '\u{a0}', '\u{d7ff}', '\u{f900}', '\u{ffef}', '\\', ':', '*', 'é', '中'];
    let illegal = [
        "\0\u{1}\u{1f}\u{7f}\u{80}\u{9f}\u{e000}\u{f8ff}",
        "\u{fff0}\u{fffd}\u{ffff}\u{10000}\u{1f600}\u{10ffff}",
    ];
    for c in legal {
        assert_eq!(broken(&format!("/a{c}b")), None, "{c:?}");
    }
    for c in illegal.iter().flat_map(|some| some.chars()) {
        assert_eq!(broken(&format!("/a{c}b")), Some((IllegalCharacter(c), 2)), "{c:?}");
    }
}

#[test]
fn sequential_path_is_checked_with_its_number() {
    for path in ["/", "/a/", "/a/.", "/a/..", "/a/lock-"] {
        assert_eq!(validate_sequential_path(path), Ok(()), "{path}");
    }
    for (path, kind, offset) in [
        ("", NotAbsolute, 0),
        ("//", EmptyComponent, 1),
        ("/../a", RelativeComponent, 1),
        ("/a/\u{1}", IllegalCharacter('\u{1}'), 3),
    ] {
        let error = validate_sequential_path(path).unwrap_err();
        assert_eq!((error.kind, error.offset), (kind, offset), "{path:?}");
    }
}

#[test]
fn path_error_shows_the_path_in_one_line() {
    for (path, text) in [
        ("locks/a", r#"path "locks/a" does not start with '/' (at byte 0)"#),
        ("/a/", r#"path "/a/" ends with '/' (at byte 3)"#),
        ("/a/\n", r#"path "/a/\n" has the illegal character \u{a} (at byte 3)"#),
    ] {
        let error = validate_path(path).unwrap_err();
        assert!(text.contains(error.kind.to_string().trim_start_matches("path ")), "or alone");
        assert_eq!((error.to_string(), format!("{error:?}")), (text.into(), text.into()));
        assert!(text.contains(error.path()));
    }
}

#[test]
fn path_error_shortens_a_long_path() {
    let path = format!("/{}//{}", "ä".repeat(10_000), "z".repeat(10_000));
    let error = validate_path(&path).unwrap_err();
    assert_eq!(error.path().chars().count(), ABBREVIATED_LEN_MAX);
    assert!(error.path().starts_with("/ää") && error.path().ends_with("zz"), "{error}");
    assert!(error.to_string().contains("z\" has an empty component (at byte 20002)"), "{error}");
}

#[test]
fn parent_and_file_name_split_a_path() {
    for (path, up, name) in [
        ("/", None, ""),
        ("/a", Some("/"), "a"),
        ("/a/b", Some("/a"), "b"),
        ("/a/b/", Some("/a/b"), ""),
        ("", None, ""),
        ("a", None, "a"),
        ("a/b", None, "b"),
    ] {
        assert_eq!((parent(path), file_name(path)), (up, name), "{path:?}");
    }
}

#[test]
fn child_and_protected_name_are_joined() {
    assert_eq!(child("/", "a"), "/a");
    assert_eq!(child("/a", "b"), "/a/b");
    assert_eq!(protection_prefix("0b7f"), "_c_0b7f-");
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn path_checks_agree_with_each_other(path in random_path()) {
        match validate_path(&path) {
            Ok(()) => {
                prop_assert!(validate_sequential_path(&path).is_ok());
                let (parent, name) = (parent(&path), file_name(&path));
                let joined = parent.map(|parent| format!("{}/{name}", parent.trim_end_matches('/')));
                prop_assert_eq!(joined, Some(path.clone()).filter(|path| path != "/"));
            }
            Err(error) => prop_assert!(path.is_char_boundary(error.offset), "{}", error),
        }
        // The server checks the path with its number.
        let numbered = validate_path(&format!("{path}0000000000"));
        prop_assert_eq!(validate_sequential_path(&path).is_ok(), numbered.is_ok());
    }
}

/// Random text, or text of the characters that the rules of paths mention.
fn random_path() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "/[/.aé\u{0}\u{7f}\u{fff0}]{0,9}", "(/[.ab]{1,3}){0,4}"]
}
