//! Outcome of a failed request, and where the request can be repeated.

/// Effect of a failed request on the server.
// Closed: callers decide for each outcome whether to repeat a request, and must know all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The server applied the request. Only its reply could not be understood.
    Applied,
    /// The server did not apply the request and never will.
    NotApplied,
    /// The server may have applied the request, or may still apply it. Check the state before you
    /// repeat the request.
    Unknown,
}

/// Where a failed call can be retried. Ordered: same session, new session, never.
// Closed: callers decide for each value how to repeat a call, and must know all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryOn {
    /// Repeat the call on the same session, after a pause.
    SameSession,
    /// Repeat the call on the next session, because this one has ended or never began. See `SessionManager`.
    NewSession,
    /// Do not repeat the call unchanged. It would fail again, or its [outcome](crate::Error::outcome) is
    /// not [`NotApplied`](Outcome::NotApplied) and a repetition could apply it twice.
    Never,
}
