//! Tokens of DIGEST-MD5: known exchanges, the rules for texts, and hostile tokens.

use proptest::prelude::*;
use zk_session_core::digest_md5::{Challenge, DigestError, Exchange, Proof, Response, Secret};

/// Challenge of a server of 3.8.0.
const CHALLENGE: &str =
    r#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess"#;

fn exchange<'a>(user: &'a str, password: &'a str) -> Exchange<'a> {
    Exchange {
        user,
        password: password.as_bytes(),
        realm: "zk-sasl-md5",
        nonce: "OA6MG9tEQGm2hh",
        cnonce: "OA6MHXh6VqTrRk",
        authorization_id: None,
    }
}

#[test]
fn proofs_match_known_exchanges() {
    let bob = exchange("bob", "bobsecret");
    let cases = [
        (bob, "1acdf23e810277429f758b6b5e9f454b", "1588935af5391c3ee31245ea533ccfa3"),
        (
            Exchange { authorization_id: Some("bob"), ..bob },
            "904c4c78a040a362f9eadba2c7de606e",
            "f7fada751ec1346bd4d35ce551c00c1b",
        ),
        // Each text is in ISO 8859-1 if that has all its characters.
        (
            exchange("bób", "pässword"),
            "d57f14ab867f6f556199eb14b4b3c510",
            "483036e3b7a931549cd1628f8bcbc9c6",
        ),
        (
            exchange("bob", "p€"),
            "6636041c82a3a2993911384ac7f4a1bb",
            "7fe1eb11eb34433ca5ce2a7d77bf629d",
        ),
    ];
    for (exchange, client, server) in cases {
        assert_eq!(exchange.client_proof().as_str(), client, "{exchange:?}");
        assert_eq!(exchange.server_proof().as_str(), server, "{exchange:?}");
    }
}

#[test]
fn challenge_of_a_real_server_is_understood() {
    let challenge = Challenge::parse(CHALLENGE.as_bytes()).unwrap();
    assert_eq!(challenge.realm(), "zk-sasl-md5");
    assert_eq!(challenge.nonce, "OA6MG9tEQGm2hh");
    assert_eq!(Challenge::parse(&challenge.encode()).unwrap(), challenge);
}

#[test]
fn challenges_that_offer_something_else_are_rejected() {
    for (from, to) in [
        (r#"nonce="OA6MG9tEQGm2hh""#, "stale=true"),
        (r#"nonce="OA6MG9tEQGm2hh""#, r#"nonce="""#),
        (r#"nonce="OA6MG9tEQGm2hh""#, r#"nonce="a",nonce="a""#),
        ("md5-sess", "md5"),
        ("algorithm=", "algorithms="),
        ("utf-8", "latin-1"),
        ("charset=utf-8,", ""),
        ("charset=utf-8", r#"charset=utf-8,qop="auth-int,auth-conf""#),
    ] {
        let challenge = CHALLENGE.replace(from, to);
        assert!(Challenge::parse(challenge.as_bytes()).is_err(), "{challenge}");
    }
    let offers = format!(r#"{CHALLENGE},qop="auth-int, auth",maxbuf=1,realm="b""#);
    let challenge = Challenge::parse(offers.as_bytes()).unwrap();
    assert_eq!(challenge.realms, ["zk-sasl-md5", "b"]);
}

#[test]
fn answer_without_proof_is_rejected() {
    let none = DigestError("the server's answer has no proof (rspauth)");
    for token in [&b""[..], b"rspauth=", b"rspauth=1588935af5391c3ee31245ea533ccfa", b"a=b"] {
        assert_eq!(Proof::parse(token), Err(none), "{}", token.escape_ascii());
    }
    let proof = exchange("bob", "bobsecret").server_proof();
    assert!(Proof::parse(&proof.encode()).unwrap().is_same(&proof));
    assert!(!proof.is_same(&exchange("bob", "bobsecreT").server_proof()));
}

#[test]
fn proofs_that_differ_in_two_digits_are_different() {
    let proof = |digits: &str| Proof::parse(format!("rspauth={digits}").as_bytes()).unwrap();
    let one = proof("1588935af5391c3ee31245ea533ccfa3");
    // The differences of the last two digits are equal.
    assert!(!one.is_same(&proof("1588935af5391c3ee31245ea533ccfb0")));
}

#[test]
fn response_has_all_directives_of_the_java_client() {
    let token = Response::of(&exchange("bob", "bobsecret")).encode();
    let expected = concat!(
        r#"charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh","#,
        r#"cnonce="OA6MHXh6VqTrRk",nc=00000001,digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,"#,
        "response=1acdf23e810277429f758b6b5e9f454b,qop=auth"
    );
    assert_eq!(String::from_utf8(token).unwrap(), expected);
}

#[test]
fn response_for_another_service_or_quality_is_rejected() {
    let token = Response::of(&exchange("bob", "bobsecret")).encode();
    let token = String::from_utf8(token).unwrap();
    for (from, to) in [
        ("digest-uri=\"zookeeper/zk-sasl-md5\"", "digest-uri=\"imap/zk-sasl-md5\""),
        ("nc=00000001", "nc=00000002"),
        ("qop=auth", "qop=auth-int"),
    ] {
        let other = token.replace(from, to);
        assert_ne!(other, token);
        let error = Response::parse(other.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the response is for another service or quality");
    }
}

#[test]
fn debug_shows_no_password_and_no_proof() {
    let exchange = exchange("bob", "bobsecret");
    let response = Response::of(&exchange);
    let secret = Secret::new(b"bobsecret".to_vec());
    let shown = format!("{exchange:?} {response:?} {secret:?}");
    assert!(!shown.contains("bobsecret") && !shown.contains("1acdf2"), "{shown}");
    assert!(format!("{exchange:?}").contains("user: \"bob\""));
    assert_eq!(format!("{:?}", exchange.server_proof()), "Proof(hidden)");
    assert_eq!(format!("{secret:?}"), "Secret(hidden)");
}

proptest! {
    #[test]
    fn response_is_parsed_as_it_was(user in ".{0,20}", realm in ".{0,20}", id in ".{0,20}") {
        let id = (!id.is_empty()).then_some(id.as_str());
        let exchange = Exchange {
            user: &user,
            realm: &realm,
            authorization_id: id,
            ..exchange("", "secret")
        };
        let response = Response::of(&exchange);
        prop_assert_eq!(Response::parse(&response.encode()), Ok(response));
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(token in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Challenge::parse(&token), Proof::parse(&token), Response::parse(&token));
    }
}
