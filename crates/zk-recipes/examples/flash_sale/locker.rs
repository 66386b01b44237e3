//! The ensemble that the buyers lock with: an existing one, or a server in this process.

use std::fmt;

use zk_testing::TestServer;

use crate::args::Plan;
use crate::failure::Failure;

/// An ensemble to connect to. A server of this process stops when this value is dropped.
pub(crate) struct Ensemble {
    pub(crate) connect: String,
    own: Option<TestServer>,
}

impl Ensemble {
    /// Returns the ensemble of the command line, or starts a server. The server uses TCP, since the
    /// buyers run in other processes.
    pub(crate) async fn of(plan: &Plan) -> Result<Self, Failure> {
        if let Some(connect) = plan.connect.clone() {
            return Ok(Self { connect, own: None });
        }
        let server = TestServer::start()
            .await
            .map_err(|error| Failure::broken("cannot start a server in this process", error))?;
        Ok(Self { connect: server.connect_string(), own: Some(server) })
    }
}

impl fmt::Display for Ensemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connect, own } = self;
        match own {
            Some(_) => write!(f, "an in-memory server of its own ({connect})"),
            None => write!(f, "{connect}"),
        }
    }
}
