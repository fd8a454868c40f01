//! The thread that one family's health checks are answered on.
//!
//! Apart from the [servers](CheckServers), which do not care where they run. Load balancers give an
//! answer a second or two and take a node out that is late some times in a row, and that is how
//! long the thread of syncs may be at tens of thousands of Services.

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
    /// Follows the syncs, on a thread of its own, until there are no more to come; then every
    /// server is closed. Where no thread is to be had, this one has to do.
    pub async fn run(self, changes: UnboundedReceiver<CheckChanges>) {
        let (work, given) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        match start(given, ended) {
            Ok(()) => {
                // Nobody but the thread could refuse it, which waits for it.
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

/// Starts a thread that does what it will be given, and says when all of it is closed.
fn start(given: oneshot::Receiver<Work>, ended: oneshot::Sender<()>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        if let Ok((servers, changes)) = given.blocking_recv() {
            runtime.block_on(servers.follow(changes));
        }
        // Connections are closed with it.
        drop(runtime);
        // Nobody listens any more if the process is about to end.
        let _ = ended.send(());
    };
    let thread = thread::Builder::new().name("health checks".to_owned());
    thread.spawn(run).map(drop)
}
