//! Ctrl-C and SIGTERM: the first asks for a clean stop, the second for one at once.

#[cfg(unix)]
use anyhow::Context as _;
use anyhow::Result;

/// Signals that end the server.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes them over from the system, which would end the process at once.
    #[cfg(unix)]
    pub fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        // Once heard of, a file that may grow no further is a write that fails, which the store can live with. The system
        // would end the process.
        let _ = listen(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Takes them over from the system, which would end the process at once.
    #[cfg(not(unix))]
    pub fn listen() -> Result<Self> {
        Ok(Self {})
    }

    /// The next one. Cancel-safe: a signal that comes between two waits is kept for the second.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a way to hear of it, only the system can stop us.
            std::future::pending::<()>().await;
        }
    }
}
