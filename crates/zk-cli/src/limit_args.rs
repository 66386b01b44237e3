//! Limits of requests, answers and trees.

use clap::Args as ClapArgs;

use crate::subtree::TREE_MIB_DEFAULT;

/// The options for limits.
#[derive(Debug, ClapArgs)]
pub(crate) struct LimitArgs {
    /// The most that the paths of a tree may have for a command that walks over it, in MiB.
    ///
    /// A server that invents nodes without end must not fill the memory.
    #[arg(
        long,
        global = true,
        value_name = "MIB",
        default_value_t = TREE_MIB_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true
    )]
    pub(crate) tree_limit: u32,

    /// The longest request that is sent, in bytes.
    ///
    /// If the servers have another jute.maxbuffer, set the same value.
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        default_value = "1048575",
        value_parser = clap::value_parser!(u32).range(1_024..=i64::from(i32::MAX)),
        hide_short_help = true
    )]
    pub(crate) max_request_len: u32,

    /// The longest answer that is accepted, in bytes.
    ///
    /// The jute.maxbuffer of the servers does not limit their answers, for example the list of the
    /// children of one node.
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        default_value = "16777216",
        value_parser = clap::value_parser!(u32).range(1_024..=i64::from(i32::MAX)),
        hide_short_help = true
    )]
    pub(crate) max_frame_len: u32,
}
