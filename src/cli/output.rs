//! Stdout is data.
//!
//! Apart so that every command buffers, flushes and fails alike, and because colours are decided
//! here: commands write them always, and what is no terminal, or a user who set NO_COLOR, never
//! sees them.

use std::io::{self, BufWriter, Write};

use anstream::AutoStream;

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
    let mut out = BufWriter::new(AutoStream::auto(io::stdout().lock()));
    out.write_all(&data)?;
    Ok(out.flush()?)
}
