//! The SASL mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper's servers use it: its tokens in both directions,
//! and the client's side of an exchange, [`DigestMd5Mechanism`].
//!
//! The client begins with an empty token. The server sends a [`Challenge`], the client a [`Response`], and
//! the server proves with [`Proof::encode`] that it knows the password, too.
//!
//! The mechanism is historic (RFC 6331): anybody who sees an exchange can guess the password offline. Use it
//! over TLS.
//!
//! ```
//! use zk_session_core::digest_md5::{Challenge, Exchange, Proof, Response};
//!
//! let challenge = br#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess"#;
//! let challenge = Challenge::parse(challenge)?;
//! let exchange = Exchange {
//!     user: "bob",
//!     password: b"bobsecret",
//!     realm: challenge.realm(),
//!     nonce: &challenge.nonce,
//!     cnonce: "OA6MHXh6VqTrRk",
//!     authorization_id: None,
//! };
//! let response = Response::of(&exchange);
//! assert_eq!(response.proof.as_str(), "1acdf23e810277429f758b6b5e9f454b");
//! let server = Proof::parse(b"rspauth=1588935af5391c3ee31245ea533ccfa3")?;
//! assert!(server.is_same(&exchange.server_proof()));
//! # Ok::<(), zk_session_core::digest_md5::DigestError>(())
//! ```

mod directives;
mod md5;
mod mechanism;
mod secret;

use std::error::Error;
use std::fmt;

pub use self::mechanism::DigestMd5Mechanism;
pub use self::secret::Secret;

use self::md5::{HASH_LEN, md5};

/// Address of the service in the tokens. ZooKeeper gives its servers no host name here.
const URI: &str = "zookeeper/zk-sasl-md5";
/// Realm of a server that names none.
const REALM: &str = "zk-sasl-md5";
/// Each exchange has a new nonce, so the client uses it for the first time.
const NONCE_COUNT: &str = "00000001";

/// A token that is not in the format, or demands something that is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestError(pub &'static str);

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for DigestError {}

/// Token with which a server begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Realms that the server offers.
    pub realms: Vec<String>,
    /// Random text of the server.
    pub nonce: String,
}

impl Challenge {
    /// Parses the token.
    ///
    /// # Errors
    /// The token is malformed; a directive is missing or repeated; or the server does not offer
    /// authentication alone (`qop=auth`), with MD5 and UTF-8.
    pub fn parse(token: &[u8]) -> Result<Self, DigestError> {
        let directives = directives::parse(token)?;
        let one = |key| only(&directives, key);
        let realms = directives.iter().filter(|(key, _)| key == "realm");
        let realms = realms.map(|(_, realm)| text(realm)).collect::<Result<_, _>>()?;
        let Some(nonce) = one("nonce")?.filter(|nonce| !nonce.is_empty()) else {
            return Err(DigestError("the challenge has no nonce"));
        };
        if one("algorithm")? != Some(b"md5-sess") {
            return Err(DigestError("the challenge does not name the algorithm md5-sess"));
        }
        if one("charset")?.is_none_or(|charset| !charset.eq_ignore_ascii_case(b"utf-8")) {
            return Err(DigestError("the challenge does not name the charset utf-8"));
        }
        let is_auth = |offer: &[u8]| offer.trim_ascii().eq_ignore_ascii_case(b"auth");
        // Without this directive the server offers authentication alone.
        if one("qop")?.is_some_and(|offers| !offers.split(|byte| *byte == b',').any(is_auth)) {
            return Err(DigestError("the challenge does not offer qop=auth"));
        }
        Ok(Self { realms, nonce: text(nonce)? })
    }

    /// Returns the token.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for realm in &self.realms {
            directives::push_quoted(&mut out, "realm", realm.as_bytes());
        }
        directives::push_quoted(&mut out, "nonce", self.nonce.as_bytes());
        directives::push(&mut out, "charset", b"utf-8");
        directives::push(&mut out, "algorithm", b"md5-sess");
        out
    }

    /// Returns the realm in which a client answers: the first that is offered.
    #[must_use]
    pub fn realm(&self) -> &str {
        self.realms.first().map_or(REALM, String::as_str)
    }
}

/// Everything that both proofs of one exchange depend on.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Password of the user, in UTF-8.
    pub password: &'a [u8],
    /// Realm that the client has chosen.
    pub realm: &'a str,
    /// Random text of the server.
    pub nonce: &'a str,
    /// Random text of the client.
    pub cnonce: &'a str,
    /// User to act as. Servers take the authenticated user in any case.
    pub authorization_id: Option<&'a str>,
}

impl Exchange<'_> {
    /// Returns the proof of the client.
    #[must_use]
    pub fn client_proof(&self) -> Proof {
        self.proof("AUTHENTICATE")
    }

    /// Returns the proof of the server.
    #[must_use]
    pub fn server_proof(&self) -> Proof {
        self.proof("")
    }

    /// Section 2.1.2.1 of RFC 2831. The server's proof names no method.
    fn proof(&self, method: &str) -> Proof {
        let password = String::from_utf8_lossy(self.password);
        let [user, realm] = [self.user, self.realm].map(latin1_if_possible);
        let password = latin1_if_possible(&password);
        // From this hash, a user can be authenticated without the password.
        let secret = Secret::new(md5(&[&user, b":", &realm, b":", &password]).to_vec());
        let mut a1: Vec<&[u8]> = vec![&secret];
        for part in
            [Some(self.nonce), Some(self.cnonce), self.authorization_id].into_iter().flatten()
        {
            a1.extend([&b":"[..], part.as_bytes()]);
        }
        let a1 = Proof::of(&a1);
        let a2 = Proof::of(&[method.as_bytes(), b":", URI.as_bytes()]);
        let texts = [a1.as_str(), self.nonce, NONCE_COUNT, self.cnonce, "auth", a2.as_str()];
        Proof::of(&[texts.join(":").as_bytes()])
    }
}

/// Hides the password.
impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("user", &self.user)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

/// Encodes a text as Java's `stringToByte_8859_1` does: in ISO 8859-1 if that has all its characters,
/// otherwise in UTF-8.
fn latin1_if_possible(text: &str) -> Secret {
    let mut bytes = Secret::new(Vec::with_capacity(text.len()));
    if text.chars().all(|char| u8::try_from(char).is_ok()) {
        text.chars().filter_map(|char| u8::try_from(char).ok()).for_each(|byte| bytes.push(byte));
    } else {
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// A hash in hexadecimal, by which one side proves that it knows the password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proof([u8; 2 * HASH_LEN]);

impl Proof {
    fn of(parts: &[&[u8]]) -> Self {
        let mut digits = [0; 2 * HASH_LEN];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(md5(parts)) {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    /// Parses the server's token with its proof.
    ///
    /// # Errors
    /// The token is malformed or has no proof.
    pub fn parse(token: &[u8]) -> Result<Self, DigestError> {
        let directives = directives::parse(token)?;
        let proof = only(&directives, "rspauth")?.and_then(|proof| proof.try_into().ok());
        proof.map(Self).ok_or(DigestError("the server's answer has no proof (rspauth)"))
    }

    /// Returns the server's token with this proof.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        directives::push(&mut out, "rspauth", &self.0);
        out
    }

    /// Returns true for the same proof, after the same time for all others.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let different = self.0.iter().zip(other.0).fold(0, |sum, (one, other)| sum | (one ^ other));
        std::hint::black_box(different) == 0
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Hides the digits, from which a password can be guessed.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(hidden)")
    }
}

/// Token of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Name of the user.
    pub user: String,
    /// Realm that the client has chosen.
    pub realm: String,
    /// Random text of the server.
    pub nonce: String,
    /// Random text of the client.
    pub cnonce: String,
    /// User to act as, if the client names one.
    pub authorization_id: Option<String>,
    /// Proof that the client knows the password.
    pub proof: Proof,
}

impl Response {
    /// Answers a challenge.
    #[must_use]
    pub fn of(exchange: &Exchange<'_>) -> Self {
        Self {
            user: exchange.user.to_owned(),
            realm: exchange.realm.to_owned(),
            nonce: exchange.nonce.to_owned(),
            cnonce: exchange.cnonce.to_owned(),
            authorization_id: exchange.authorization_id.map(str::to_owned),
            proof: exchange.client_proof(),
        }
    }

    /// Returns the token.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        directives::push(&mut out, "charset", b"utf-8");
        for (key, value) in [
            ("username", &self.user),
            ("realm", &self.realm),
            ("nonce", &self.nonce),
            ("cnonce", &self.cnonce),
        ] {
            directives::push_quoted(&mut out, key, value.as_bytes());
        }
        directives::push(&mut out, "nc", NONCE_COUNT.as_bytes());
        directives::push_quoted(&mut out, "digest-uri", URI.as_bytes());
        directives::push(&mut out, "maxbuf", b"65536");
        directives::push(&mut out, "response", &self.proof.0);
        directives::push(&mut out, "qop", b"auth");
        if let Some(id) = &self.authorization_id {
            directives::push_quoted(&mut out, "authzid", id.as_bytes());
        }
        out
    }

    /// Parses the token, with the checks of a server (Java's `validateClientResponse`).
    ///
    /// # Errors
    /// The token is malformed, a directive is missing or repeated, or it is for another service.
    pub fn parse(token: &[u8]) -> Result<Self, DigestError> {
        let directives = directives::parse(token)?;
        let required = |key, error| match only(&directives, key)? {
            Some(value) => text(value),
            None => Err(DigestError(error)),
        };
        let uri = required("digest-uri", "the response has no digest-uri")?;
        let count = only(&directives, "nc")?.is_none_or(|count| count == NONCE_COUNT.as_bytes());
        let qop = only(&directives, "qop")?.is_none_or(|qop| qop == b"auth");
        if !uri.eq_ignore_ascii_case(URI) || !count || !qop {
            return Err(DigestError("the response is for another service or quality"));
        }
        let proof = only(&directives, "response")?.and_then(|proof| proof.try_into().ok());
        Ok(Self {
            user: required("username", "the response has no username")?,
            realm: required("realm", "the response has no realm")?,
            nonce: required("nonce", "the response has no nonce")?,
            cnonce: required("cnonce", "the response has no cnonce")?,
            authorization_id: only(&directives, "authzid")?.map(text).transpose()?,
            proof: proof.map(Proof).ok_or(DigestError("the response has no proof"))?,
        })
    }
}

/// Returns the value of a directive that must not be repeated.
fn only<'a>(
    directives: &'a [(String, Vec<u8>)],
    key: &str,
) -> Result<Option<&'a [u8]>, DigestError> {
    let mut found =
        directives.iter().filter(|(other, _)| other == key).map(|(_, value)| value.as_slice());
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        _ => Err(DigestError("a directive is repeated")),
    }
}

fn text(value: &[u8]) -> Result<String, DigestError> {
    String::from_utf8(value.to_vec()).map_err(|_| DigestError("a directive is not in UTF-8"))
}
