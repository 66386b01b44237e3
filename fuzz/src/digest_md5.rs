//! Fuzz target for the tokens of DIGEST-MD5: parsers on any bytes, tokens that return from an encoder, and
//! proofs against another MD5.
//!
//! Input: user, password, realm, nonce and cnonce (each one length byte, then its bytes), then a token.

use md5::{Digest, Md5};
use zk_session_core::digest_md5::{Challenge, Exchange, Proof, Response};

use crate::Input;
use crate::memory::bounded;

/// Parses the whole input, and computes the proofs of an exchange.
pub fn run(data: &[u8]) {
    any_bytes(data);
    let mut input = Input::new(data);
    let (user, password) = (input.text(), input.text());
    let (realm, nonce, cnonce) = (input.text(), input.text(), input.text());
    any_bytes(input.rest());

    let exchange = Exchange {
        user: &user,
        password: password.as_bytes(),
        realm: &realm,
        nonce: &nonce,
        cnonce: &cnonce,
        authorization_id: None,
    };
    let client = exchange.client_proof();
    assert_eq!(client.as_str(), proof(&exchange, "AUTHENTICATE:"));
    let server = exchange.server_proof();
    assert_eq!(server.as_str(), proof(&exchange, ":"));
    assert!(client.is_same(&client) && !client.is_same(&server));
    let parsed = Proof::parse(&server.encode()).expect("a proof that was encoded");
    assert!(parsed.is_same(&server));

    let response = Response::of(&exchange);
    if let Ok(parsed) = Response::parse(&response.encode()) {
        assert_eq!(parsed, response);
    }
    let challenge = Challenge { realms: vec![realm.clone()], nonce: nonce.clone() };
    if let Ok(parsed) = Challenge::parse(&challenge.encode()) {
        assert_eq!(parsed, challenge);
    }
}

fn any_bytes(token: &[u8]) {
    if let Ok(challenge) = bounded(token.len(), || Challenge::parse(token)) {
        assert_eq!(Challenge::parse(&challenge.encode()).as_ref(), Ok(&challenge));
    }
    if let Ok(response) = bounded(token.len(), || Response::parse(token)) {
        assert_eq!(Response::parse(&response.encode()).as_ref(), Ok(&response));
    }
    if let Ok(proof) = bounded(token.len(), || Proof::parse(token)) {
        assert!(Proof::parse(&proof.encode()).is_ok_and(|parsed| parsed.is_same(&proof)));
    }
}

/// Returns a proof as RFC 2831 defines it, for the beginning of A2 that tells client and server apart.
fn proof(exchange: &Exchange<'_>, start: &str) -> String {
    let Exchange { user, password, realm, nonce, cnonce, .. } = *exchange;
    let password = std::str::from_utf8(password).expect("a text");
    let secret = hash(&[&java(user), b":", &java(realm), b":", &java(password)]);
    let a1 = hex(&[&secret, b":", nonce.as_bytes(), b":", cnonce.as_bytes()]);
    let a2 = hex(&[start.as_bytes(), b"zookeeper/zk-sasl-md5"]);
    hex(&[format!("{a1}:{nonce}:00000001:{cnonce}:auth:{a2}").as_bytes()])
}

/// Returns the bytes that Java hashes: ISO 8859-1 if possible, else UTF-8.
fn java(text: &str) -> Vec<u8> {
    match text.chars().all(|char| u32::from(char) < 256) {
        true => text.chars().filter_map(|char| u8::try_from(char).ok()).collect(),
        false => text.into(),
    }
}

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(part));
    md5.finalize().to_vec()
}

fn hex(parts: &[&[u8]]) -> String {
    hash(parts).iter().map(|byte| format!("{byte:02x}")).collect()
}
