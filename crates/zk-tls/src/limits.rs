//! Limits of this crate.

/// Reads of the files of one connector that may be under way at once. A read that hangs, as on a
/// network drive, outlives its attempt to connect. Without a limit, each attempt would leave a thread
/// behind. The others wait, within the time limit of their own attempt.
pub const FILE_READS_MAX: usize = 4;
