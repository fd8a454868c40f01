//! Thread of the health check node ports of one family.
//!
//! The thread of syncs may be busy for seconds at tens of thousands of Services, and load
//! balancers take a node out of service whose answers are later than a second or two.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tracing::warn;

use super::check::CheckChanges;
use super::check_servers::CheckServers;

type Work = (CheckServers, UnboundedReceiver<CheckChanges>);

impl CheckServers {
    /// Runs the servers on a thread of their own until there are no further syncs, then closes
    /// them. Without another thread they run on this one.
    pub(crate) async fn run(self, changes: UnboundedReceiver<CheckChanges>) {
        let (work, given) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        match start(given, ended) {
            Ok(()) => {
                // The thread is waiting for it, so it is received.
                let _ = work.send((self, changes));
                // An error: it has panicked, and with it the process has ended.
                let _ = end.await;
            }
            Err(cause) => {
                warn!("health checks wait for syncs: no thread for them: {cause}");
                self.follow(changes).await;
            }
        }
    }
}

/// Starts a thread for the servers that it is sent; reports when they are closed.
fn start(given: oneshot::Receiver<Work>, ended: oneshot::Sender<()>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        if let Ok((servers, changes)) = given.blocking_recv() {
            runtime.block_on(servers.follow(changes));
        }
        // Connections are closed with it.
        drop(runtime);
        // At the end of the process there may be no receiver.
        let _ = ended.send(());
    };
    let thread = thread::Builder::new().name("health checks".to_owned());
    thread.spawn(run).map(drop)
}
