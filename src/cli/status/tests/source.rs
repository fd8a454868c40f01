//! Errors of daemons that do not answer.

use super::*;

fn error(reason: &NoPage) -> String {
    let address = "127.0.0.1:10249".parse().unwrap();
    let full = || {
        Some(ConntrackStatus {
            entries: 100,
            max: 100,
        })
    };
    no_state(address, reason, full).to_string()
}

#[test]
fn only_a_connection_that_times_out_is_blamed_on_connection_tracking() {
    let busy = error(&NoPage::Busy);
    assert!(
        busy.contains("connection tracking is nearly full"),
        "{busy}"
    );
    let refused = error(&NoPage::Absent("connection refused".to_owned()));
    assert!(!refused.contains("connection tracking"), "{refused}");
    for error in [busy, refused] {
        assert!(
            error.ends_with("; --node NAME asks another node"),
            "{error}"
        );
    }
}
