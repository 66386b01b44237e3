//! A blocking connection to the server, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use xtask::zookeeper::certificate;

/// The connection below ZooKeeper's protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn connect(addresses: &str, transport: Transport) -> io::Result<Self> {
        let socket = dial(addresses)?;
        if transport == Transport::Plain {
            return Ok(Self::Plain(socket));
        }
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::new(client_config()?), name);
        let tls = tls.map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    /// Limits the time that a read waits for the server. Without a limit, it waits forever.
    pub(crate) fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.get_ref(),
        };
        socket.set_read_timeout(Some(limit))
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(from),
            Self::Tls(tls) => tls.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// Connects to the next of several servers. Commas separate their addresses.
pub(crate) fn dial(addresses: &str) -> io::Result<TcpStream> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let all: Vec<&str> = addresses.split(',').collect();
    let socket = TcpStream::connect(all[NEXT.fetch_add(1, Ordering::Relaxed) % all.len()])?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Returns the settings that the library has as well: the test authority alone is trusted.
fn client_config() -> io::Result<ClientConfig> {
    let mut authorities = RootCertStore::empty();
    let file = CertificateDer::from_pem_file(certificate("ca.pem")).map_err(io::Error::other)?;
    authorities.add(file).map_err(io::Error::other)?;
    let builder = ClientConfig::builder().with_root_certificates(authorities);
    Ok(builder.with_no_client_auth())
}
