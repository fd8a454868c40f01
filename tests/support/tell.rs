//! Lines that `tests/run.sh` closes with.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a figure that is worth reading when all is well, too: `tests/run.sh` closes with them.
///
/// Past the capture of `println!`, which would show it only with everything else that passed. In
/// one write, so that no line of the test harness gets between.
pub fn tell(figure: impl Display) {
    let line = format!("{figure}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
