//! SASL credentials, from which each connection gets its mechanism.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use tokio::sync::Semaphore;
use zk_session_core::digest_md5::{DigestMd5Mechanism, Secret};
use zk_session_core::{Host, SaslMechanism};

use crate::entropy::entropy;
use crate::limits::PASSWORD_READS_MAX;

/// Prepares the SASL mechanism of each connection.
///
/// The future runs once the connection is open, and counts towards the time limit of the attempt.
/// Everything that blocks belongs there, on a thread of its own: reading a password, a request to a
/// Kerberos server. The mechanism itself runs on the driver of the session and must not block.
pub trait Sasl: fmt::Debug + Send + Sync + 'static {
    /// Prepares the mechanism for a connection to `host`, which has this `address` if the connector
    /// knows one. It is called again for each connection.
    fn prepare(&self, host: &Host, address: Option<IpAddr>) -> SaslPreparation;
}

/// Future of [`Sasl::prepare`]. An error ends the attempt, as
/// [`SaslFailure::NotPrepared`](crate::SaslFailure::NotPrepared).
pub type SaslPreparation = Pin<Box<dyn Future<Output = io::Result<Box<dyn SaslMechanism>>> + Send>>;

/// User and password for the SASL mechanism DIGEST-MD5.
///
/// The server's `DigestLoginModule` checks them, and knows the client as `sasl:<user>`. The client
/// checks in turn that the server knows the password. Neither is sent, but whoever sees the exchange
/// can guess the password offline (RFC 6331): use it over TLS.
///
/// A server in FIPS mode does not offer the mechanism: by default the releases after 3.9.5.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Config, DigestMd5};
///
/// let password = || std::fs::read("/run/secrets/zookeeper");
/// let sasl = DigestMd5::reading("alice", password);
/// let client = Config::new("zk1:2181")?.sasl(sasl).connect().await?;
/// # drop(client); Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DigestMd5 {
    user: String,
    password: Password,
}

#[derive(Clone)]
enum Password {
    Fixed(Secret),
    Read(Arc<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>, Arc<Semaphore>),
}

impl DigestMd5 {
    /// Takes a password that never changes. The copy here is overwritten when it is dropped.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<Vec<u8>>) -> Self {
        let password = Password::Fixed(Secret::new(password.into()));
        Self { user: user.into(), password }
    }

    /// Reads the password for each connection, so that it can change during the life of a session.
    ///
    /// The function may block: it runs on a thread for blocking calls. One newline at the end is not
    /// part of the password, so that a file may end with one. A password that is empty or not UTF-8
    /// ends the attempt, and nothing of it is sent.
    #[must_use]
    pub fn reading(
        user: impl Into<String>,
        read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(PASSWORD_READS_MAX));
        Self { user: user.into(), password: Password::Read(Arc::new(read), permits) }
    }
}

impl Sasl for DigestMd5 {
    fn prepare(&self, _host: &Host, _address: Option<IpAddr>) -> SaslPreparation {
        let Self { user, password } = self.clone();
        Box::pin(async move {
            let password = match password {
                Password::Fixed(password) => password,
                Password::Read(read, permits) => {
                    let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
                    let read = tokio::task::spawn_blocking(move || {
                        let password = read();
                        drop(permit);
                        password
                    });
                    // The message of a panic may contain the password.
                    let panicked =
                        |_| io::Error::other("the function that reads the password panicked");
                    without_newline(read.await.map_err(panicked)??)
                }
            };
            check(&password)?;
            let mechanism = DigestMd5Mechanism::new(&user, password, entropy());
            Ok::<Box<dyn SaslMechanism>, _>(Box::new(mechanism))
        })
    }
}

/// Refuses a password that no server can have: a rejection would end the session. An empty file is
/// usually one that is being written.
fn check(password: &[u8]) -> io::Result<()> {
    let reason = match std::str::from_utf8(password) {
        Ok("") => "the password is empty",
        Ok(_) => return Ok(()),
        Err(_) => "the password is not UTF-8",
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, reason))
}

fn without_newline(mut password: Vec<u8>) -> Secret {
    if password.last() == Some(&b'\n') {
        password.pop();
        if password.last() == Some(&b'\r') {
            password.pop();
        }
    }
    Secret::new(password)
}

/// Hides the password.
impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use super::*;

    /// One thread runs the reads in their order, so the last one is after all others.
    #[test]
    fn dropped_attempts_leave_few_reads_behind() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let sasl = DigestMd5::reading("alice", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(b"sesame".to_vec())
        });
        let (release, is_held) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let held = tokio::task::spawn_blocking(move || is_held.recv());
            for _ in 0..10 * PASSWORD_READS_MAX {
                let mut attempt = sasl.prepare(&Host::new("zk", 1), None);
                let _ = attempt.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            drop(release);
            assert!(held.await.unwrap().is_err());
            sasl.prepare(&Host::new("zk", 1), None).await.unwrap();
        });
        assert_eq!(reads.load(Ordering::SeqCst), PASSWORD_READS_MAX + 1);
    }
}
