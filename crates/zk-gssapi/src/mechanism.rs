//! The mechanism GSSAPI of SASL (RFC 4752), for one connection.

use std::fmt;

use libgssapi::context::{ClientCtx, SecurityContext};
use libgssapi::error::Error;
use zk_session::{SaslFailure, SaslMechanism, SaslStep};

/// Client's side of the exchange. Nothing here asks a Kerberos server: the ticket is in the first
/// token.
pub(crate) struct Gssapi {
    context: ClientCtx,
    state: State,
}

enum State {
    /// The first token waits to be sent.
    Begun(Vec<u8>),
    /// The server's proof is awaited.
    Opening,
    /// Both sides are proven, and the server's offer of security layers is awaited.
    Open,
    Over,
}

impl Gssapi {
    /// Gets the ticket for the server that is the target of `context`. It may ask a Kerberos server,
    /// and blocks until that has answered.
    ///
    /// # Errors
    /// There is no ticket of the client, or none for the server.
    pub(crate) fn begin(mut context: ClientCtx) -> Result<Self, Error> {
        let first = context.step(None, None)?;
        let first = first.map(|token| token.to_vec()).unwrap_or_default();
        Ok(Self { context, state: State::Begun(first) })
    }

    /// Continues with the server's proof.
    fn open(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure> {
        let answer = self.context.step(Some(token), None);
        let answer = answer.map_err(|_| SaslFailure::ServerNotProven)?;
        let is_open = self.context.open().unwrap_or(false);
        self.state = if is_open { State::Open } else { State::Opening };
        match answer {
            Some(token) => Ok(SaslStep::Send(token.to_vec())),
            // The server makes its offer only when asked.
            None if is_open => Ok(SaslStep::Send(Vec::new())),
            None => Err(SaslFailure::UnfitToken("it neither completes nor continues the exchange")),
        }
    }

    /// Answers the server's offer of security layers: none, as ZooKeeper has none.
    fn choose_layer(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure> {
        let offer = self.context.unwrap(token).map_err(|_| SaslFailure::ServerNotProven)?;
        match *offer {
            [layers, _, _, _] if layers & NO_LAYER != 0 => {}
            [_, _, _, _] => return Err(SaslFailure::UnfitToken("it demands a security layer")),
            _ => return Err(SaslFailure::UnfitToken("its offer of security layers is malformed")),
        }
        // Without an authorization id, which the server would ignore anyway: the client is who its
        // ticket says.
        let choice = self.context.wrap(false, &[NO_LAYER, 0, 0, 0]);
        let choice = choice.map_err(|error| SaslFailure::Mechanism(error.to_string().into()))?;
        Ok(SaslStep::SendLast(choice.to_vec()))
    }
}

/// The bit of "no security layer".
const NO_LAYER: u8 = 1;

impl SaslMechanism for Gssapi {
    fn step(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Begun(first) => {
                self.state = State::Opening;
                Ok(SaslStep::Send(first))
            }
            State::Opening => self.open(token),
            State::Open => self.choose_layer(token),
            State::Over => Err(SaslFailure::UnfitToken("the exchange is complete")),
        }
    }
}

/// Prints no token.
impl fmt::Debug for Gssapi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gssapi").finish_non_exhaustive()
    }
}
