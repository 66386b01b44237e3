//! Tests of the texts of errors, of the party at fault, and of retries.

use super::*;

#[test]
fn retry_on_depends_on_error_kind_and_outcome() {
    let on = |kind: ErrorKind| Error::not_applied(kind).retry_on();
    let passes = |kind: ErrorKind| on(kind) == RetryOn::SameSession;
    assert!(TRANSIENT_CODES.into_iter().all(|code| passes(ErrorKind::Server(code))));
    assert!(passes(ErrorKind::NotReadOnly) && passes(ErrorKind::LimitReached(Limit::Requests)));
    assert!(!passes(ErrorKind::LimitReached(Limit::Credentials)));
    assert!(!passes(ErrorKind::ReplyTooLarge { len: 2, max: 1 }));
    assert!(!passes(ErrorKind::Server(ErrorCode::NO_NODE)));
    let moved = ErrorKind::Server(ErrorCode::SESSION_MOVED);
    let unknown = Error::new(moved, Outcome::Unknown);
    assert_eq!(unknown.retry_on(), RetryOn::Never, "it may have been applied");
    let ended = |end| on(ErrorKind::SessionEnded(end));
    assert_eq!(ended(SessionEnd::Expired), RetryOn::NewSession);
    assert_eq!(ended(SessionEnd::AuthFailed), RetryOn::Never);
    let refused = DisconnectReason::Unreachable(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(on(ErrorKind::NoSession(refused)), RetryOn::NewSession);
    let tls = |failure| on(ErrorKind::NoSession(DisconnectReason::Tls(failure)));
    assert_eq!(tls(TlsFailure::ClosedByServer), RetryOn::NewSession);
    assert_eq!(tls(TlsFailure::Other("x".into())), RetryOn::NewSession);
    assert_eq!(tls(TlsFailure::UnknownIssuer), RetryOn::Never);
}

#[test]
fn error_tells_the_codes_that_callers_expect() {
    type Is = fn(&Error) -> bool;
    let codes: [(ErrorCode, Is); 5] = [
        (ErrorCode::NO_NODE, Error::is_no_node),
        (ErrorCode::NODE_EXISTS, Error::is_node_exists),
        (ErrorCode::BAD_VERSION, Error::is_bad_version),
        (ErrorCode::NOT_EMPTY, Error::is_not_empty),
        (ErrorCode::NO_AUTH, Error::is_no_auth),
    ];
    for (code, is_code) in codes {
        let error = Error::not_applied(ErrorKind::Server(code));
        let true_for: Vec<_> =
            codes.iter().filter(|(_, is)| is(&error)).map(|(name, _)| *name).collect();
        assert_eq!(true_for, [code]);
        assert!(is_code(&error) && !is_code(&Error::not_applied(ErrorKind::TimedOut)));
    }
}

#[test]
fn error_names_the_error_that_caused_it() {
    let invalid = proto::validate_path("a").unwrap_err();
    let error = Error::not_applied(ErrorKind::InvalidPath(invalid.clone()));
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), invalid.to_string());
    let garbled = <proto::Stat as proto::Decode<'_>>::from_frame(&bytes::Bytes::new()).unwrap_err();
    let error = Error::not_applied(ErrorKind::InvalidReply(garbled));
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), garbled.to_string());
    let lost = Error::not_applied(ErrorKind::TimedOut);
    assert!(std::error::Error::source(&lost).is_none());
}

#[test]
fn limit_errors_describe_the_limit() {
    let told = |limit| Error::not_applied(ErrorKind::LimitReached(limit)).to_string();
    assert!(told(Limit::Watches).starts_with("too many watches"));
    assert!(told(Limit::Credentials).starts_with("too many credentials"));
    assert!(told(Limit::Requests).ends_with("(REQUESTS_MAX); slow down"));
    assert!(told(Limit::QueuedBytes).ends_with("(QUEUED_BYTES_MAX); slow down"));
    let large = Error::not_applied(ErrorKind::ReplyTooLarge { len: 12, max: 10 });
    let text = "an answer of 12 bytes; this client takes at most 10 (max_frame_len), whatever";
    assert!(large.to_string().starts_with(text), "{large}");
    let large = Error::not_applied(ErrorKind::TooLarge { len: 12, max: 10 }).to_string();
    assert!(large.contains("at most 10 (max_request_len)") && large.contains("jute.maxbuffer"));
}

#[test]
fn deferred_delete_error_promises_the_deletion() {
    for (limit, name) in
        [(Limit::CleanUps, "CLEAN_UPS_MAX"), (Limit::CleanUpBytes, "QUEUED_BYTES_MAX")]
    {
        let deferred = Error::new(ErrorKind::LimitReached(limit), Outcome::Unknown);
        let text =
            format!("too many nodes wait to be deleted ({name}); this one is deleted after them");
        assert_eq!(deferred.to_string(), text);
        assert_eq!(deferred.retry_on(), RetryOn::Never);
    }
}

#[test]
fn error_prints_as_one_line_for_main() {
    let path = "a/b".to_owned();
    let invalid = proto::validate_path(&path).unwrap_err();
    for (error, line) in [
        (
            Error::not_applied(ErrorKind::Server(ErrorCode::NO_NODE)).on(OpCode::GetData, "/a"),
            "getData /a: NoNode (-101)",
        ),
        (
            Error::not_applied(ErrorKind::InvalidPath(invalid)).on(OpCode::Create, path),
            r#"create: path "a/b" does not start with '/' (at byte 0)"#,
        ),
        (
            Error::not_applied(ErrorKind::SessionEnded(SessionEnd::Expired))
                .on(OpCode::Sync, "/\n"),
            "sync /\\n: the session expired; open a new client (the request was not applied)",
        ),
    ] {
        assert_eq!((format!("{error:?}"), error.to_string()), (line.into(), line.into()));
        let source: Box<dyn std::error::Error> = error.into();
        assert_eq!(format!("{source:?}"), line);
        assert_eq!(format!("{source:#?}").lines().next(), Some("Error {"), "its parts");
    }
    let long = Error::not_applied(ErrorKind::TimedOut).on(OpCode::GetData, "/x".repeat(1_000_000));
    assert!(long.to_string().len() < 400, "{long}");
}

#[test]
fn missing_chroot_is_named_in_the_error() {
    let missing = |operation: OpCode, path: &str| {
        Error::not_applied(ErrorKind::Server(ErrorCode::NO_NODE)).on(operation, path).to_string()
    };
    let hint = "; the chroot does not exist; Config::create_chroot creates it";
    for (operation, name, path, is_chroot) in [
        (OpCode::Create, "create", "/a", true),
        (OpCode::GetData, "getData", "/", true),
        (OpCode::Create, "create", "/", true),
        (OpCode::Create, "create", "/a/b", false),
        (OpCode::GetData, "getData", "/a", false),
    ] {
        let expected = format!("{name} {path}: NoNode (-101){}", if is_chroot { hint } else { "" });
        assert_eq!(missing(operation, path), expected);
    }
}

#[test]
fn origin_depends_on_the_cause_of_the_disconnect() {
    use crate::IoFailure;
    let of = |cause: DisconnectReason| {
        let origin = Error::not_applied(ErrorKind::NoSession(cause.clone())).origin();
        assert_eq!(Error::not_applied(ErrorKind::ConnectionLost(cause)).origin(), origin);
        origin
    };
    let text = || "x".into();
    let denied = || IoFailure::from(std::io::ErrorKind::PermissionDenied);
    let late = || IoFailure::from(std::io::ErrorKind::TimedOut);
    for (cause, origin) in [
        (DisconnectReason::FrameTooLarge, ErrorOrigin::Peer),
        (DisconnectReason::UnknownXid(3), ErrorOrigin::Peer),
        (DisconnectReason::OutOfOrder(3), ErrorOrigin::Peer),
        (DisconnectReason::NoSessionId, ErrorOrigin::Peer),
        (DisconnectReason::IdleTimeout, ErrorOrigin::Network),
        (DisconnectReason::ClosedByServer, ErrorOrigin::Network),
    ] {
        assert_eq!(of(cause.clone()), origin, "{cause:?}");
    }
    for (failure, origin) in [
        (TlsFailure::NotConfigured, ErrorOrigin::Caller),
        (TlsFailure::FileUnreadable(denied()), ErrorOrigin::Caller),
        (TlsFailure::FileUnfit(text()), ErrorOrigin::Caller),
        (TlsFailure::NoServerName(text()), ErrorOrigin::Caller),
        (TlsFailure::CertificateRequired, ErrorOrigin::Caller),
        (TlsFailure::CertificateRefused, ErrorOrigin::Caller),
        (TlsFailure::ClosedByServer, ErrorOrigin::Network),
        (TlsFailure::UnknownIssuer, ErrorOrigin::Peer),
        (TlsFailure::NotSpoken, ErrorOrigin::Peer),
    ] {
        assert_eq!(of(DisconnectReason::Tls(failure.clone())), origin, "{failure:?}");
    }
    for (failure, origin) in [
        (SaslFailure::NotOffered, ErrorOrigin::Server),
        (SaslFailure::MechanismRefused, ErrorOrigin::Server),
        (SaslFailure::Refused(ErrorCode::NO_AUTH), ErrorOrigin::Server),
        (SaslFailure::ClosedByServer, ErrorOrigin::Server),
        (SaslFailure::NotPrepared(late()), ErrorOrigin::Network),
        (SaslFailure::NotPrepared(denied()), ErrorOrigin::Caller),
        (SaslFailure::ServerNotProven, ErrorOrigin::Peer),
    ] {
        assert_eq!(of(DisconnectReason::Sasl(failure.clone())), origin, "{failure:?}");
    }
}

#[test]
fn session_end_is_a_loss_if_unintended() {
    let ends = [
        (SessionEnd::Expired, true),
        (SessionEnd::ExpiredLocally { paused: None }, true),
        (SessionEnd::CleanUpOverflow, true),
        (SessionEnd::DriverPanicked, true),
        (SessionEnd::NotOpened, true),
        (SessionEnd::Closed, false),
        (SessionEnd::Detached, false),
        (SessionEnd::AuthFailed, false),
        (SessionEnd::AuthRequired, false),
    ];
    assert!(ends.iter().all(|(end, is_loss)| end.is_loss() == *is_loss));
}

#[test]
fn stopped_manager_names_its_reason_and_the_outcome_once() {
    let stopped = |why: Error| Error::not_applied(ErrorKind::ManagerStopped(why)).to_string();
    let closed = stopped(SessionEnd::Closed.into());
    assert_eq!(closed, "the session manager is closed (the request was not applied)");
    let rejected = stopped(Error::from(SessionEnd::AuthFailed).on(Operation::Connect, "h:1"));
    let text = "no next session: connect to h:1: the server rejected the credentials, or has \
                no key for its own Kerberos principal (the request was not applied)";
    assert_eq!(rejected, text);
}

#[test]
fn failed_connect_reports_its_cause_and_no_outcome() {
    let failed = |cause| Error::not_applied(ErrorKind::NoSession(cause)).to_string();
    let wrong = DisconnectReason::NoSessionId;
    assert_eq!(failed(wrong.clone()), format!("no session: {wrong}"));
    assert!(failed(DisconnectReason::IdleTimeout).contains("is this the client port"));
    let broken = DisconnectReason::Io(std::io::ErrorKind::BrokenPipe);
    for cause in [DisconnectReason::ClosedByServer, broken] {
        let error = failed(cause);
        assert!(error.contains("the server closed the connection before it gave one"), "{error}");
        assert!(error.contains("without TLS, and below its limit for one address"), "{error}");
    }
}
