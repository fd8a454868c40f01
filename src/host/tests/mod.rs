//! Tests that need processes: shell scripts in place of iptables, and the real binaries.

mod backend;
pub(super) mod conntrack_bytes;
mod hostile;
mod kernel;
mod scripts;
mod unprintable;

#[track_caller]
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
