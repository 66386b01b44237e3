//! Passwords, credentials and tokens never appear in `Debug` output.

use zk_proto::{
    AuthPacket, ConnectReply, ConnectRequest, ConnectResponse, Sasl, SaslReply, SessionId, Zxid,
};

#[test]
fn debug_output_has_no_passwords_or_tokens() {
    let password = bytes::Bytes::from_static(b"OPENSESAME");
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(1),
        timeout_ms: 2,
        session_id: SessionId(3),
        password: password.clone(),
        read_only: Some(false),
    };
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 2,
        session_id: SessionId(3),
        password,
        read_only: None,
    };
    let auth = AuthPacket {
        auth_type: 0,
        scheme: "digest".into(),
        auth: Some(b"user:OPENSESAME"[..].into()),
    };
    let reply = ConnectReply::Accepted(response.clone());
    let step = Sasl { token: b"OPENSESAME"[..].into() };
    let proof = SaslReply { token: Some("OPENSESAME".into()) };
    for shown in [format!("{request:?}"), format!("{response:?}")] {
        assert!(shown.contains("session_id: 0x3"), "{shown}");
    }
    let lengths = "Sasl { token_len: 10, .. } SaslReply { token_len: Some(10), .. }";
    assert_eq!(format!("{step:?} {proof:?}"), lengths);
    let text = format!("{request:?} {response:?} {auth:?} {reply:?} {request:#?} {auth:#?}");
    let text = format!("{text} {step:?} {proof:?} {step:#?} {proof:#?}");
    assert!(text.contains("session_id: 0x3") && text.contains("digest"));
    // The password appears neither as text nor as a list of numbers ("OP" is 79, 80).
    assert!(!text.contains("OPENSESAME") && !text.contains("79, 80"));
}
