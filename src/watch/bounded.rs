//! Reads untrusted files up to a maximum size.
//!
//! For manifests, `iptables-save` output, the configuration and credentials: a path may lead to a
//! device that never ends, or to a huge file that was given by mistake.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum bytes of a configuration file, kubeconfig or token. A `ConfigMap` has at most a
/// megabyte.
pub(crate) const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum bytes of a manifest: four times those of 50,000 Services with their EndpointSlices. Each
/// byte takes several bytes of memory when it is decoded.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 512 << 20;

/// Maximum bytes of `iptables-save` output: twice that of 50,000 Services with ten endpoints each.
pub(crate) const MAX_DUMP_BYTES: u64 = 1 << 30;

/// Reads a file or a pipe of at most `max_bytes` bytes. Blocks until a program writes to the pipe.
/// A larger regular file is an error before it is read, a pipe or a device after `max_bytes` bytes.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    read_all(file, max_bytes)
}

/// Reads a regular file of at most `max_bytes` bytes. Never blocks: a pipe or a device, which may
/// have replaced the file meanwhile, is an error.
pub(crate) fn read_regular_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    // Opening a pipe does not wait for a program that writes.
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let problem = "is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    if metadata.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    read_all(file, max_bytes)
}

/// Reads UTF-8 text from a file or a pipe of at most `max_bytes` bytes.
pub(crate) fn read_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read(path, max_bytes)?)
}

/// Reads UTF-8 text from a regular file. Never blocks, as [`read_regular_file`].
pub(crate) fn regular_file_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read_regular_file(path, max_bytes)?)
}

/// Reads an input of at most `max_bytes` bytes.
pub(crate) fn read_all(from: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok(bytes)
}

/// Reports whether the path leads to a regular file, which can be read again, and not to a pipe or
/// a device, which may block for ever.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn too_large(max_bytes: u64) -> io::Error {
    let problem = format!("larger than {} MiB, the maximum size", max_bytes >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, problem)
}

#[cfg(test)]
#[path = "tests/bounded.rs"]
mod tests;
