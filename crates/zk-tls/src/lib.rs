//! TLS for the ZooKeeper client of `zk-session`, on rustls.
//!
//! * [`Tls`] is a [`Connector`](zk_session::Connector): pass it to
//!   [`Config::connector`](zk_session::Config::connector).
//! * [`TlsBuilder`] takes the certificates, as files that are read again for each connection, or as
//!   texts.
//!
//! A server needs `secureClientPort` or `client.portUnification`, and Netty. TLS 1.2 and 1.3 are
//! offered, because servers before 3.9 speak only the first by default, and servers from 3.9.0 to
//! 3.9.5 only the second.
//!
//! # What is checked
//! * The chain of the server's certificate, against the given authorities only, not those of the
//!   operating system.
//! * Its name: the host name or the address in the connect string must be a subjectAltName of the
//!   certificate. A common name does not count.
//!
//! Each failure is a [`TlsFailure`](zk_session::TlsFailure) that says what to do. A first `connect`
//! fails with it after one attempt at each server. A session that was open before keeps trying,
//! because certificates rotate.
//!
//! # Example
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_session::Config;
//! use zk_tls::Tls;
//!
//! let tls = Tls::builder().ca_file("/etc/zookeeper/ca.pem").build()?;
//! let client = Config::new("zk1:2281")?.connector(tls).connect().await?;
//! # drop(client); Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builder;
mod certificates;
mod connector;
mod examination;
mod failure;
mod identity;
pub mod limits;
mod verifier;

pub use self::builder::TlsBuilder;
pub use self::connector::{Tls, TlsStream};
pub use self::examination::ServerCertificates;
/// The version of rustls in the types of this crate.
pub use tokio_rustls::rustls;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
