//! Validation of a write: from the request to the resulting change or error.
//!
//! The checks have the order of the server's `PrepRequestProcessor`, because the client receives
//! the error of the first check that fails.

mod create;
mod delete;
mod keeper;
mod set;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use proto::{Acl, ErrorCode, Perms, SessionId};

use super::acl::{self, AskedAcl, Identity};
use super::node::{Node, NodeKind};
use super::settings::Settings;
use super::tree::Tree;

pub(crate) use create::{CreateArgs, CreateKind};

/// First and last characters of the ranges of illegal ones, which 3.4 accepts.
const EDGE_CHARACTERS: [char; 6] =
    ['\u{1f}', '\u{7f}', '\u{9f}', '\u{f8ff}', '\u{fff0}', '\u{ffff}'];

/// Properties of a node that validation needs.
#[derive(Clone)]
struct Record {
    acl: Arc<[Acl]>,
    version: i32,
    aversion: i32,
    /// Number of children ever created.
    creates: i64,
    children: usize,
    is_ephemeral: bool,
}

impl Record {
    fn of(node: &Node) -> Self {
        Self {
            acl: Arc::clone(&node.acl),
            version: node.version,
            aversion: node.aversion,
            creates: node.creates,
            children: node.children.len(),
            is_ephemeral: matches!(node.kind, NodeKind::Ephemeral(_)),
        }
    }
}

/// Validation of one write, or of the operations of one multi.
pub(crate) struct Preparation<'a> {
    tree: &'a Tree,
    settings: &'a Settings,
    session_id: SessionId,
    identities: &'a [Identity],
    open: &'a Arc<[Acl]>,
    /// Changes by earlier operations of the same multi; `None` is a deleted node.
    pending: Option<HashMap<String, Option<Record>>>,
}

impl<'a> Preparation<'a> {
    /// Creates the validation of a single operation.
    pub(crate) fn new(
        tree: &'a Tree,
        settings: &'a Settings,
        session_id: SessionId,
        identities: &'a [Identity],
        open: &'a Arc<[Acl]>,
    ) -> Self {
        Self { tree, settings, session_id, identities, open, pending: None }
    }

    /// Starts a multi: from here on, every operation sees the changes of the earlier ones.
    pub(crate) fn begin_multi(&mut self) {
        self.pending = Some(HashMap::new());
    }

    fn record(&self, path: &str) -> Result<Record, ErrorCode> {
        if let Some(known) = self.pending.as_ref().and_then(|pending| pending.get(path)) {
            return known.clone().ok_or(ErrorCode::NO_NODE);
        }
        self.tree.node(path).map(Record::of).ok_or(ErrorCode::NO_NODE)
    }

    /// Records a change for the later operations of a multi.
    fn remember(&mut self, path: &str, record: impl FnOnce() -> Option<Record>) {
        if let Some(pending) = &mut self.pending {
            pending.insert(path.to_owned(), record());
        }
    }

    fn permit(&self, record: &Record, perms: Perms) -> Result<(), ErrorCode> {
        if acl::permits(&record.acl, perms, self.identities) {
            Ok(())
        } else {
            Err(ErrorCode::NO_AUTH)
        }
    }

    /// Returns the entries of an ACL. Null is empty, except in 3.4, which fails on it.
    fn asked<'p, 'q>(
        &self,
        acl: Option<&'p [AskedAcl<'q>]>,
    ) -> Result<&'p [AskedAcl<'q>], ErrorCode> {
        match acl {
            None if self.settings.version.fails_on_null_acl() => Err(ErrorCode::MARSHALLING_ERROR),
            acl => Ok(acl.unwrap_or_default()),
        }
    }

    /// Returns the path unless it is null or invalid.
    fn validate<'p>(&self, path: Option<&'p str>) -> Result<&'p str, ErrorCode> {
        let path = path.ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let checked = if self.settings.version.allows_edge_characters() {
            path.replace(EDGE_CHARACTERS, "x").into()
        } else {
            Cow::Borrowed(path)
        };
        proto::validate_path(&checked).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        Ok(path)
    }
}

/// Compares versions and returns the next one. An expected version of -1 matches any.
fn next_version(expected: i32, actual: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != actual {
        return Err(ErrorCode::BAD_VERSION);
    }
    Ok(actual.wrapping_add(1))
}
