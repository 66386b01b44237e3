//! Limits of this crate.

/// Requests to Kerberos servers that may be under way at once in a process.
///
/// An attempt to connect that takes too long gives up, but the library's call goes on, for up to a
/// minute if the Kerberos server is down. Without a limit, each attempt would leave a thread behind.
/// The others wait, within the time limit of their own attempt.
pub const PREPARATIONS_MAX: usize = 4;
