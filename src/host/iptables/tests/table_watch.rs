//! Start of a watch of table sizes. Changes are tested in `host::tests::kernel`, with the programs
//! that make them.

use super::*;

#[test]
fn a_missing_capability_is_an_error() {
    // With the capability, the sizes in this network namespace are read, whatever they are.
    for family in IpFamily::ALL {
        match SizeWatch::start(family) {
            Ok(watch) => watch.check(),
            Err(cause) => assert!(cause.raw_os_error().is_some(), "{cause}"),
        }
    }
}
