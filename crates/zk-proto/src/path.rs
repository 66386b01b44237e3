//! Parts of node paths: parent, name, child, and Curator's protection of names.
//!
//! ```
//! use zk_proto::path::{child, file_name, parent};
//!
//! assert_eq!(parent("/locks/a"), Some("/locks"));
//! assert_eq!(parent("/locks"), Some("/"));
//! assert_eq!(parent("/"), None);
//! assert_eq!(file_name("/locks/a"), "a");
//! assert_eq!(child("/locks", "a"), "/locks/a");
//! assert_eq!(child("/", "locks"), "/locks");
//! ```

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
