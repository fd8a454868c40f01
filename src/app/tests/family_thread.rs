//! Tests of `family_thread`.

use super::*;
use futures::future::join;

const LONG: Duration = Duration::from_secs(20);

/// On one thread for both, the second family would never start.
#[tokio::test]
async fn a_family_that_computes_does_not_delay_the_other() {
    let (sender, receiver) = channel();
    let watchdog = Watchdog::new(LONG);
    let computes = run_on_thread(IpFamily::V4, &watchdog, move || async move {
        receiver.recv_timeout(LONG).context("IPv6 is delayed")
    });
    let other = run_on_thread(IpFamily::V6, &watchdog, move || async move {
        Ok(sender.send(())?)
    });
    let (first, second) = join(computes, other).await;
    first.unwrap();
    second.unwrap();
}

/// A restore is killed when the future that waits for it is dropped.
#[tokio::test]
async fn canceled_work_is_dropped_before_the_process_exits() {
    let (sender, receiver) = channel::<()>();
    let watchdog = Watchdog::new(LONG);
    let work = run_on_thread(IpFamily::V4, &watchdog, move || async move {
        let _restore = sender;
        std::future::pending().await
    });
    let canceled = tokio::time::timeout(Duration::from_millis(50), work).await;
    assert!(canceled.is_err());
    assert_eq!(
        receiver.try_recv(),
        Err(std::sync::mpsc::TryRecvError::Disconnected)
    );
}

#[tokio::test]
async fn errors_of_the_work_are_returned() {
    let watchdog = Watchdog::new(LONG);
    let failed = run_on_thread(IpFamily::V6, &watchdog, || async { anyhow::bail!("no") });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");
}
