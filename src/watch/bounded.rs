//! Reads untrusted files up to a maximum size.
//!
//! Manifests, dumps, the configuration and credentials are all read by these functions: a path may
//! lead to a device that never ends, or to a huge file that was given by mistake.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum bytes of a configuration file, kubeconfig or token. A `ConfigMap` has at most a
/// megabyte.
pub(crate) const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum bytes of a manifest. Those of 50,000 Services and their slices have a quarter of it;
/// decoded, each byte takes several bytes of memory.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 512 << 20;

/// Maximum bytes of `iptables-save` output. That of 50,000 Services with ten endpoints each has
/// half of it.
pub(crate) const MAX_DUMP_BYTES: u64 = 1 << 30;

/// Reads a file or a pipe of at most `max_bytes` bytes.
///
/// # Errors
///
/// Errors of the system, and [`io::ErrorKind::FileTooLarge`], before anything of such a file is
/// read.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_file(File::open(path)?, max_bytes)
}

/// Reads UTF-8 text from a file or a pipe of at most `max_bytes` bytes.
///
/// # Errors
///
/// Errors of [`read`], and [`io::ErrorKind::InvalidData`].
pub(crate) fn read_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read(path, max_bytes)?)
}

/// Reads UTF-8 text from a regular file, without ever blocking: a path that was a file may lead to
/// a pipe now, and opening that would wait for a writer.
///
/// # Errors
///
/// Errors of [`read_to_string`], and [`io::ErrorKind::InvalidInput`] for anything but a regular
/// file.
pub(crate) fn file_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not a regular file",
        ));
    }
    text(read_file(file, max_bytes)?)
}

/// Reads at most `max_bytes` bytes until the end.
///
/// # Errors
///
/// Errors of the system, and [`io::ErrorKind::FileTooLarge`].
pub(crate) fn read_all(from: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(max_bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok(text)
}

/// Reports whether the path leads to a regular file, which can be read again, and not to a pipe or
/// a device, which may block for ever.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Reads nothing of a file whose known size is too large.
fn read_file(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    read_all(file, max_bytes)
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
mod tests {
    use super::*;

    const MAX_TEST_BYTES: u64 = 3 << 20;

    #[test]
    fn a_file_larger_than_the_maximum_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some");
        let exact = File::create(&path).unwrap();
        exact.set_len(MAX_TEST_BYTES).unwrap();
        assert_eq!(
            read(&path, MAX_TEST_BYTES).unwrap().len() as u64,
            MAX_TEST_BYTES
        );
        exact.set_len(1 << 31).unwrap();
        let error = read(&path, MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "larger than 3 MiB, the maximum size");
        assert!(is_file(&path));
    }

    #[test]
    fn a_device_without_end_is_an_error() {
        let error = read(Path::new("/dev/zero"), MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(!is_file(Path::new("/dev/zero")));
    }

    #[test]
    fn directories_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path(), MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(!is_file(directory.path()));
    }

    #[test]
    fn text_is_utf8() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some");
        fs::write(&path, "wägen").unwrap();
        assert_eq!(read_to_string(&path, MAX_TEST_BYTES).unwrap(), "wägen");
        fs::write(&path, b"\xff").unwrap();
        let error = read_to_string(&path, MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
