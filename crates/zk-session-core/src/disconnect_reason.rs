//! Reasons why a connection ended, and protocols of peers that are not ZooKeeper servers.

use std::time::Duration;
use std::{fmt, io};

use proto::{DecodeError, ErrorCode};

use crate::pauses::NotRunning;
use crate::{IoFailure, SaslFailure, TlsFailure};

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// No server could be reached in time, or at all.
    Unreachable(io::ErrorKind),
    /// The server closed the connection.
    ClosedByServer,
    /// Reading or writing failed.
    Io(io::ErrorKind),
    /// The client closed the connection after this process had not run for this long. The process
    /// was stopped, its machine was suspended, or a task blocked its runtime. The server may not be
    /// at fault.
    ProcessPaused(Duration),
    /// The server sent nothing in time.
    ///
    /// This means two thirds of the session timeout, of which at most a
    /// [minute](crate::limits::IDLE_LIMIT_MAX) counts. While the lease is claimed, the time may be
    /// shorter, so that another connection can still renew the lease. While connecting and during
    /// the handshake, it is the time limit of the attempt.
    IdleTimeout,
    /// The server sent data, but left a request unanswered for a whole session timeout, or
    /// acknowledged nothing at all for two thirds of it. If the session timeout is longer than a
    /// [minute](crate::limits::IDLE_LIMIT_MAX), a minute counts instead.
    RequestTimeout,
    /// The client moved to another server because `update_servers` changed the list.
    Rebalanced,
    /// The server rejected the handshake, or the request that re-registers the session's watches,
    /// with this code.
    Refused(ErrorCode),
    /// The server is in read-only mode, and the session exists already or the settings do not allow
    /// such a server. Also the cause when the client leaves a read-only server for a read-write
    /// one.
    ReadOnly,
    /// The server announced a frame beyond the configured maximum.
    FrameTooLarge,
    /// The peer is not a ZooKeeper server: it answered the handshake, or a probe, in this protocol.
    ///
    /// A server that closes the connection and sends nothing is probed once. It counts as
    /// [`Tls`](PeerProtocol::Tls) if it speaks TLS and answers no four-letter word. A port that
    /// serves both belongs to a server that is not serving yet, and the client waits for it.
    NotZooKeeper(PeerProtocol),
    /// The connection over TLS failed.
    Tls(TlsFailure),
    /// The SASL exchange failed. A [rejection](SaslFailure::Rejected) of the credentials by every
    /// server that can be reached ends the session, as
    /// [`SessionEnd::AuthFailed`](crate::SessionEnd::AuthFailed).
    Sasl(SaslFailure),
    /// The server sent something that is not in the protocol.
    ProtocolError(DecodeError),
    /// The server answered a request that the client never sent.
    UnknownXid(i32),
    /// The server answered this request and skipped an earlier one. The skipped reply can no longer
    /// arrive.
    OutOfOrder(i32),
    /// No server could be reached, and a newer list of servers could not be had, for this reason. See
    /// `Config::discover` of the crate `zk-session`.
    NoServerList(IoFailure),
    /// The server accepted the handshake and gave no session.
    NoSessionId,
    /// The server has no leader and serves nobody, as a Keeper tells in the handshake. ZooKeeper closes the
    /// connection.
    NoLeader,
    /// No server opened a session. Some closed the connection, the others did not reply, as in an
    /// ensemble without a majority.
    NotServing {
        /// Number of servers that close the connection.
        closing: usize,
        /// Number of all servers.
        servers: usize,
    },
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(io::ErrorKind::NotFound) => {
                f.write_str("cannot resolve the name of a server")
            }
            Self::Unreachable(kind) => write!(f, "no server could be reached ({kind})"),
            Self::ClosedByServer => f.write_str("the server closed the connection"),
            Self::Io(kind) => write!(f, "reading or writing failed ({kind})"),
            Self::ProcessPaused(paused) => {
                write!(f, "{}, and closed the connection", NotRunning(*paused))
            }
            Self::IdleTimeout => f.write_str("the server did not answer in time"),
            Self::RequestTimeout => {
                f.write_str("the server answered other requests and left one unanswered")
            }
            Self::Rebalanced => f.write_str("the client moved to another server"),
            Self::Refused(code) => {
                write!(f, "the server rejected the session or its watches: {code}")
            }
            Self::ReadOnly => f.write_str("the server is read-only"),
            Self::FrameTooLarge => f.write_str("the server sent a frame beyond the maximum"),
            Self::NotZooKeeper(protocol) => write!(f, "{protocol}"),
            Self::Tls(failure) => write!(f, "{failure}"),
            Self::Sasl(failure) => write!(f, "{failure}"),
            Self::ProtocolError(error) => write!(f, "the server broke the protocol: {error}"),
            Self::UnknownXid(xid) => {
                write!(f, "the server answered request {xid}, which was never sent")
            }
            Self::OutOfOrder(xid) => {
                write!(f, "the server answered request {xid} and left out an earlier one")
            }
            Self::NoServerList(failure) => {
                write!(
                    f,
                    "no server could be reached, and no newer list of servers was found: {failure}"
                )
            }
            Self::NoSessionId => {
                f.write_str("the server accepted the handshake and gave no session")
            }
            Self::NoLeader => f.write_str("the server has no leader and serves nobody"),
            Self::NotServing { closing, servers } => write!(
                f,
                "{} of {servers} servers do not answer, and the others accept connections and serve \
                 nobody: the ensemble may have no majority",
                servers.saturating_sub(*closing)
            ),
        }
    }
}

impl std::error::Error for DisconnectReason {}

impl DisconnectReason {
    /// Returns true if the attempt failed at once, and the next one is likely to fail as well.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Unreachable(kind) => *kind != io::ErrorKind::TimedOut,
            Self::Tls(_) => true,
            Self::Sasl(SaslFailure::ClosedBeforeProof | SaslFailure::ClosedByServer) => true,
            _ => self.is_lasting(),
        }
    }

    /// Returns true if the server, or somebody on the way, closed the connection. It is a reset if
    /// the server had not read everything.
    pub(crate) fn is_close(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        matches!(
            self,
            Self::ClosedByServer | Self::Io(BrokenPipe | ConnectionAborted | ConnectionReset)
        )
    }

    /// Returns how much the reason tells about why no server gives a session. A server that is down
    /// tells less than a server with an unknown certificate.
    pub(crate) fn weight(&self) -> u8 {
        match self {
            Self::Unreachable(_) | Self::IdleTimeout => 0,
            Self::Sasl(SaslFailure::Rejected) => 3,
            _ => 1 + u8::from(self.is_lasting()),
        }
    }

    /// Returns true if another attempt reaches the same peer, or presents the same credentials, and
    /// so would fail as well.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::NotZooKeeper(_) => true,
            Self::Tls(failure) => !failure.is_passing(),
            Self::Sasl(SaslFailure::NotPrepared(failure)) => !failure.is_passing(),
            // A server that restarts closes connections too.
            Self::Sasl(SaslFailure::ClosedBeforeProof | SaslFailure::ClosedByServer) => false,
            Self::Sasl(_) => true,
            _ => false,
        }
    }
}

/// Protocol that a peer speaks instead of ZooKeeper's, recognized by the first bytes it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerProtocol {
    /// TLS, as on a `secureClientPort`: the first bytes are a TLS record.
    Tls,
    /// HTTP, as on the port of the admin server or of metrics.
    Http,
    /// SSH.
    Ssh,
    /// Another protocol that begins with text, with its first bytes.
    Text([u8; 4]),
}

impl PeerProtocol {
    /// Recognizes a protocol by its first bytes. In ZooKeeper's protocol they are the length of a
    /// frame.
    #[must_use]
    pub fn of(first: &[u8]) -> Option<Self> {
        let first = *first.first_chunk::<4>()?;
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        match &first {
            // A TLS alert or handshake record.
            [0x15 | 0x16, 0x03, ..] => Some(Self::Tls),
            b"HTTP" => Some(Self::Http),
            b"SSH-" => Some(Self::Ssh),
            text if text.iter().all(is_text) => Some(Self::Text(first)),
            _ => None,
        }
    }
}

impl fmt::Display for PeerProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls => f.write_str(
                "the server speaks TLS on this port; connect to its plaintext client port, \
                 or use a connector of the crate zk-tls",
            ),
            Self::Http => f.write_str(
                "the server speaks HTTP on this port, as ZooKeeper's admin server does; \
                 connect to its client port",
            ),
            Self::Ssh => f.write_str(
                "the server speaks SSH on this port; connect to ZooKeeper's client port",
            ),
            Self::Text(first) => write!(
                f,
                "the server does not speak ZooKeeper's protocol: its first bytes are \"{}\"",
                first.escape_ascii()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_protocol_is_recognized_by_its_first_bytes() {
        for (first, protocol) in [
            (&[0x15, 3, 3, 0, 2, 2, 80][..], Some(PeerProtocol::Tls)),
            (&[0x16, 3, 1, 2], Some(PeerProtocol::Tls)),
            (b"HTTP/1.1 400 Bad Request", Some(PeerProtocol::Http)),
            (b"SSH-2.0-OpenSSH_9.2", Some(PeerProtocol::Ssh)),
            (b"220 smtp", Some(PeerProtocol::Text(*b"220 "))),
            (b"-ERR", Some(PeerProtocol::Text(*b"-ERR"))),
            (b"HTT", None),
            (&[0, 0, 0, 37], None),
            (&[0x7f, 0xff, 0xff, 0xff], None),
        ] {
            assert_eq!(PeerProtocol::of(first), protocol, "{first:?}");
        }
        let text = PeerProtocol::Text(*b"\r\n\"a").to_string();
        assert!(text.ends_with(r#"its first bytes are "\r\n\"a""#), "{text}");
    }

    /// A first `connect` stops once all servers have refused it. A server that does not answer may
    /// still come.
    #[test]
    fn refusals_are_failures_that_come_at_once() {
        for (cause, is_refusal, is_lasting) in [
            (DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused), true, false),
            (DisconnectReason::Unreachable(io::ErrorKind::TimedOut), false, false),
            (DisconnectReason::Tls(TlsFailure::ClosedByServer), true, false),
            (DisconnectReason::Tls(TlsFailure::UnknownIssuer), true, true),
            (DisconnectReason::NotZooKeeper(PeerProtocol::Http), true, true),
            (DisconnectReason::Sasl(SaslFailure::NotOffered), true, true),
            (DisconnectReason::Sasl(SaslFailure::ClosedByServer), true, false),
            (DisconnectReason::IdleTimeout, false, false),
        ] {
            let judged = (cause.is_refusal(), cause.is_lasting());
            assert_eq!(judged, (is_refusal, is_lasting), "{cause:?}");
        }
    }
}
