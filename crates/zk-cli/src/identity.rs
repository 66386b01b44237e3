//! What a command has presented to the servers.

/// The identities that a command presents, for messages.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Whether there are any.
    pub(crate) is_any: bool,
    /// All of them in words.
    pub(crate) presented: String,
    /// The advice for a request that the servers deny to them.
    pub(crate) advice: &'static str,
    /// The risk of a connection without TLS.
    pub(crate) risk_without_tls: Option<&'static str>,
}
