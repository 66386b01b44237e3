//! The arguments of commands that have no options.

use clap::Args as ClapArgs;

/// The argument of a command about one node.
#[derive(Debug, ClapArgs)]
pub(crate) struct Node {
    /// The node.
    pub(crate) path: String,
}

/// The arguments of a command without any.
#[derive(Debug, ClapArgs)]
pub(crate) struct Nothing {}
