//! How a command reaches the servers.

use zk_recipes::session::Config;
use zk_tls::TlsBuilder;

use crate::args::Args;
use crate::failure::Result;
use crate::identity::Identity;
use crate::security::{Credential, refuse_empty_variables};

/// The options of the command line for connections.
pub(crate) struct Reach<'a> {
    pub(crate) args: &'a Args,
    /// `None` for connections in the clear.
    pub(crate) tls: Option<TlsBuilder>,
    credentials: Vec<Credential>,
    pub(crate) identity: Identity,
}

impl<'a> Reach<'a> {
    pub(crate) fn of(args: &'a Args) -> Result<Self> {
        refuse_empty_variables()?;
        let tls = args.security.tls(&args.connect)?;
        let credentials = args.security.credentials()?;
        let identity = args.security.identity(&credentials);
        Ok(Self { args, tls, credentials, identity })
    }

    /// Returns the settings of a session with the servers of the command line.
    pub(crate) fn config(&self) -> Result<Config> {
        let config = self.config_of(&self.args.connect)?;
        Ok(match &self.args.srv {
            Some(srv) => config.discover(srv.clone()),
            None => config,
        })
    }

    /// Returns the settings of a session with these servers.
    pub(crate) fn config_of(&self, connect: &str) -> Result<Config> {
        let args = self.args;
        let len = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut config = Config::new(connect)?
            .session_timeout(args.session_timeout)
            .max_request_len(len(args.max_request_len))
            .max_frame_len(len(args.max_frame_len));
        if args.read_only {
            config = config.allow_read_only();
        }
        if args.create_chroot {
            config = config.create_chroot();
        }
        args.security.present(config, &self.credentials)
    }
}
