//! Kerberos for the ZooKeeper client of `zk-session`: the SASL mechanism GSSAPI, with the system's
//! library.
//!
//! [`Kerberos`] is a [`Sasl`](zk_session::Sasl): pass it to
//! [`Config::sasl`](zk_session::Config::sasl).
//!
//! # What has to be there
//! * To build: `libkrb5-dev` and `libclang-dev`, as Debian calls them. To run: `libgssapi-krb5-2` and
//!   a `/etc/krb5.conf`. Tested with MIT Kerberos; Heimdal and Apple's library link too.
//! * A ticket of the client. Either somebody runs `kinit`, or the variable `KRB5_CLIENT_KTNAME` names
//!   a keytab, from which the library gets tickets by itself, and new ones before they expire.
//! * A principal of each server, as for Java's client; see [`Kerberos`] for its name.
//!
//! A server knows the client as `sasl:<principal>`, by default with the realm. The settings
//! `kerberos.removeHostFromPrincipal` and `kerberos.removeRealmFromPrincipal`, and the rules of
//! `zookeeper.security.auth_to_local`, change that.
//!
//! Kerberos authenticates both sides, and leaves what follows as it is: use TLS too, with the crate
//! `zk-tls`.
//!
//! # Example
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_gssapi::Kerberos;
//! use zk_session::Config;
//!
//! let config = Config::new("zk1.example.com:2181,zk2.example.com:2181")?;
//! let client = config.sasl(Kerberos::new()).connect().await?;
//! for identity in client.who_am_i().await? {
//!     println!("{}:{}", identity.scheme, identity.user); // sasl:shop@EXAMPLE.COM
//! }
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod host_name;
mod kerberos;
mod mechanism;

pub use self::kerberos::Kerberos;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
