//! Ends the benchmark at Ctrl-C as a failure would: all that it has made is dropped, so that
//! neither namespaces nor processes stay behind.

use std::panic::resume_unwind;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Listens for SIGINT and SIGTERM from now on.
///
/// Does not block them: programs that are started would inherit that, and outlive their SIGTERM.
pub fn watch() {
    thread::spawn(listen);
}

#[tokio::main(flavor = "current_thread")]
async fn listen() {
    let mut interrupt = signal(SignalKind::interrupt()).expect("listen for SIGINT");
    let mut terminate = signal(SignalKind::terminate()).expect("listen for SIGTERM");
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            // The next run of any test deletes namespaces that are left.
            exit(130);
        }
        eprintln!("interrupted: cleaning up");
    }
}

/// Unwinds after a signal.
pub fn check() {
    if IS_INTERRUPTED.load(Ordering::Relaxed) {
        resume_unwind(Box::new("interrupted"));
    }
}
