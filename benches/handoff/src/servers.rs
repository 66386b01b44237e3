//! The servers of a run.

use xtask::zookeeper::{Ensemble, Error, Server, Settings, Standalone, certificate};

use crate::{Options, roster};

/// One server, or an ensemble of three.
pub(crate) enum Servers {
    One(Standalone),
    Three(Ensemble),
}

impl Servers {
    pub(crate) fn start(options: &Options, tick_ms: u32) -> Result<Self, Error> {
        let settings = settings(options).tick_ms(tick_ms);
        if options.ensemble {
            return settings.start_ensemble(3).map(Self::Three);
        }
        settings.start().map(Self::One)
    }

    pub(crate) fn all(&self) -> &[Server] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Three(ensemble) => ensemble.servers(),
        }
    }

    /// Returns the addresses, separated by commas.
    pub(crate) fn connect_string(&self) -> String {
        match self {
            Self::One(server) => server.connect_string(),
            Self::Three(ensemble) => ensemble.connect_string(),
        }
    }
}

/// With TLS, the port of a server serves plain connections as well, so that all contestants use the same
/// server.
fn settings(options: &Options) -> Settings {
    let mut settings = Settings::default();
    if options.contestant.iter().any(|name| roster::OVER_TLS.contains(&name.as_str())) {
        settings = settings
            .tls(&certificate("server.pem"), &certificate("ca.pem"))
            .config("ssl.clientAuth", "none")
            // The quick compiler of the harness has no fast AES: TLS takes up to ten times as long.
            .jvm_flag("-XX:TieredStopAtLevel=4");
    }
    if options.fsync {
        settings = settings.jvm_flag("-Dzookeeper.forceSync=yes");
    }
    settings
}
