//! Ctrl-C and SIGTERM.

use tokio::sync::watch;

use crate::failure::Failure;

/// Handler of the signals. The operating system would end the process at once; this handler lets
/// the program stop the workers and remove the temporary files.
#[derive(Clone)]
pub(crate) struct Stop {
    stopped: watch::Receiver<bool>,
}

impl Stop {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let (tell, stopped) = watch::channel(false);
        let mut terminate = terminate()?;
        tokio::spawn(async move {
            tokio::select! {
                heard = tokio::signal::ctrl_c() => {
                    if heard.is_err() {
                        return; // the default handling of the system stays in place
                    }
                }
                () = terminate.recv() => {}
            }
            tell.send_replace(true);
        });
        Ok(Self { stopped })
    }

    /// Waits for a signal. Returns at once if a signal has arrived before.
    pub(crate) async fn heard(&mut self) {
        if self.stopped.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Terminate(tokio::signal::unix::Signal);

#[cfg(unix)]
fn terminate() -> Result<Terminate, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(signal) => Ok(Terminate(signal)),
        Err(error) => Err(Failure::broken("cannot listen for SIGTERM", error)),
    }
}

#[cfg(unix)]
impl Terminate {
    async fn recv(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
struct Terminate;

#[cfg(not(unix))]
fn terminate() -> Result<Terminate, Failure> {
    Ok(Terminate)
}

#[cfg(not(unix))]
impl Terminate {
    async fn recv(&mut self) {
        std::future::pending().await
    }
}
