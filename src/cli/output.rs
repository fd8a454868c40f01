//! Stdout is data.
//!
//! Apart so that every command buffers, flushes and fails alike.

use std::io::{self, BufWriter, Write};

/// Writes data to stdout, buffered, to its end.
///
/// # Errors
///
/// A broken pipe among others, which [`exit`](super::exit) counts as success.
pub(super) fn stdout(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut data = Vec::new();
    write(&mut data)?;
    let mut out = BufWriter::new(io::stdout().lock());
    out.write_all(&data)?;
    Ok(out.flush()?)
}
