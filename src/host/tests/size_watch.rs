//! Sizes of tables in a real kernel are tested with the programs that change them, in `kernel`.

use super::*;

#[test]
fn without_the_right_to_ask_there_is_an_error_and_no_panic() {
    // With it, the sizes of this network namespace are read, whatever they are.
    for family in IpFamily::ALL {
        match SizeWatch::start(family) {
            Ok(watch) => watch.look(),
            Err(cause) => assert!(cause.raw_os_error().is_some(), "{cause}"),
        }
    }
}
