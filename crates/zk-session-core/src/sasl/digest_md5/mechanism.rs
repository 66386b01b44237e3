//! The mechanism DIGEST-MD5, for one connection.

use std::fmt;

use super::{Challenge, DigestError, Exchange, Proof, Response, Secret};
use crate::sasl::{SaslFailure, SaslMechanism, SaslStep};

/// DIGEST-MD5 with a user and a password, for one connection.
pub struct DigestMd5Mechanism {
    user: String,
    password: Secret,
    cnonce: String,
    state: State,
}

enum State {
    Begun,
    Asked,
    /// The client has proven itself, and this is the server's proof.
    Proven(Proof),
    Over,
}

impl DigestMd5Mechanism {
    /// Creates the mechanism. The random number must differ in each exchange.
    #[must_use]
    pub fn new(user: &str, password: Secret, random: u128) -> Self {
        let cnonce = format!("{random:032x}");
        Self { user: user.to_owned(), password, cnonce, state: State::Begun }
    }

    fn answer(&self, token: &[u8]) -> Result<(Vec<u8>, Proof), DigestError> {
        let challenge = Challenge::parse(token)?;
        let exchange = Exchange {
            user: &self.user,
            password: &self.password,
            realm: challenge.realm(),
            nonce: &challenge.nonce,
            cnonce: &self.cnonce,
            // Servers take the authenticated user in any case.
            authorization_id: None,
        };
        Ok((Response::of(&exchange).encode(), exchange.server_proof()))
    }
}

impl SaslMechanism for DigestMd5Mechanism {
    fn step(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure> {
        let unfit = |error: DigestError| SaslFailure::UnfitToken(error.0);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Begun => {
                self.state = State::Asked;
                Ok(SaslStep::Send(Vec::new()))
            }
            State::Asked => {
                let (response, expected) = self.answer(token).map_err(unfit)?;
                self.state = State::Proven(expected);
                Ok(SaslStep::Send(response))
            }
            State::Proven(expected) => {
                if Proof::parse(token).map_err(unfit)?.is_same(&expected) {
                    Ok(SaslStep::Done)
                } else {
                    Err(SaslFailure::ServerNotProven)
                }
            }
            State::Over => Err(SaslFailure::UnfitToken("the exchange is complete")),
        }
    }
}

/// Hides the password.
impl fmt::Debug for DigestMd5Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5Mechanism").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_user_and_no_password() {
        let mechanism = DigestMd5Mechanism::new("alice", Secret::new(b"sesame".to_vec()), 7);
        assert_eq!(format!("{mechanism:?}"), "DigestMd5Mechanism { user: \"alice\", .. }");
    }
}
