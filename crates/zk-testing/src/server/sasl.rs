//! SASL on the server's side: the mechanism DIGEST-MD5, and authentication that is required.

use bytes::Bytes;
use proto::{Decode, ErrorCode, Sasl, SaslReply, Zxid};
use zk_session_core::digest_md5::{Challenge, Exchange, Proof, Response};

use super::Ensemble;
use super::acl::Identity;
use super::connection::{Connection, SaslProgress, Ticket};
use super::faults::Cut;
use super::settings::{SaslFault, Settings};

/// Result of one step.
enum Step {
    /// The token of the reply; `None` from a server without SASL.
    Token(Option<Vec<u8>>),
    Authenticated(Identity, Option<Vec<u8>>),
    Rejected,
}

impl Ensemble {
    /// Answers a SASL request, as `ZooKeeperServer.processSasl` does. A null token in the request
    /// closes the connection.
    pub(super) fn sasl(&mut self, ticket: Ticket, body: &Bytes) {
        let Ok(request) = Sasl::from_frame(body) else {
            return self.close(ticket.connection, Cut::Fin);
        };
        let Some(connection) = self.connections.get_mut(&ticket.connection) else { return };
        let token = match step(&self.settings, connection, ticket.connection.0, &request.token) {
            Step::Token(token) => token,
            Step::Authenticated(identity, token) => {
                connection.identities.push(identity);
                token
            }
            Step::Rejected => {
                let is_required =
                    self.settings.required_schemes.iter().any(|scheme| scheme == "sasl");
                let code = if is_required {
                    ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
                } else {
                    ErrorCode::AUTH_FAILED
                };
                self.answer_with(ticket, Zxid::ZERO, code, Some(&SaslReply { token: None }));
                return self.close(ticket.connection, Cut::Fin);
            }
        };
        let token = token.map(Bytes::from);
        self.answer_with(ticket, Zxid::ZERO, ErrorCode::OK, Some(&SaslReply { token }));
    }

    /// Rejects a request of a connection without an identity that counts, and closes the
    /// connection. Returns false for any other request.
    pub(super) fn refuses_unauthenticated(&mut self, ticket: Ticket) -> bool {
        let required = &self.settings.required_schemes;
        let Some(connection) = self.connections.get(&ticket.connection) else { return true };
        let counts = |identity: &Identity| required.iter().any(|scheme| scheme == identity.scheme);
        if required.is_empty() || connection.identities.iter().any(counts) {
            return false;
        }
        self.answer_with(ticket, Zxid::ZERO, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, None);
        self.close(ticket.connection, Cut::Fin);
        true
    }
}

fn step(settings: &Settings, connection: &mut Connection, number: u64, token: &[u8]) -> Step {
    if settings.sasl_users.is_empty() {
        return Step::Token(None);
    }
    match std::mem::replace(&mut connection.sasl, SaslProgress::Over) {
        SaslProgress::None if settings.sasl_fault == Some(SaslFault::Garbage) => {
            Step::Token(Some(b"realm=\"".to_vec()))
        }
        SaslProgress::None => {
            // Different for each connection, and the same in each run of a test.
            let nonce = format!("{:040x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            connection.sasl = SaslProgress::Challenged(nonce.clone());
            let realms = vec!["zk-sasl-md5".to_owned()];
            Step::Token(Some(Challenge { realms, nonce }.encode()))
        }
        SaslProgress::Challenged(nonce) => check(settings, &nonce, token).unwrap_or(Step::Rejected),
        SaslProgress::Over => Step::Rejected,
    }
}

/// Checks the client's response. Returns `None` if it proves nothing.
fn check(settings: &Settings, nonce: &str, token: &[u8]) -> Option<Step> {
    let response = Response::parse(token).ok()?;
    let password = &settings.sasl_users.get(&response.user)?.0;
    let exchange = Exchange {
        user: &response.user,
        password: password.as_bytes(),
        realm: &response.realm,
        nonce,
        cnonce: &response.cnonce,
        authorization_id: response.authorization_id.as_deref(),
    };
    if response.nonce != nonce || !exchange.client_proof().is_same(&response.proof) {
        return None;
    }
    let proof: Option<Proof> = match settings.sasl_fault {
        Some(SaslFault::NoProof) => None,
        Some(SaslFault::WrongProof) => Some(exchange.client_proof()),
        _ => Some(exchange.server_proof()),
    };
    let identity = Identity { scheme: "sasl", id: response.user.clone() };
    Some(Step::Authenticated(identity, proof.map(|proof| proof.encode())))
}
