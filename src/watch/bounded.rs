//! Reads untrusted files up to a maximum size.
//!
//! For manifests, `iptables-save` output, the configuration and credentials: a path may lead to a
//! device that never ends, or to a huge file that was given by mistake.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Maximum bytes of a configuration file, kubeconfig or token. A `ConfigMap` has at most a
/// megabyte.
pub(crate) const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum bytes of a manifest: four times those of 50,000 Services with their EndpointSlices. Each
/// byte takes several bytes of memory when it is decoded.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 512 << 20;

/// Maximum bytes of `iptables-save` output: twice that of 50,000 Services with ten endpoints each.
pub(crate) const MAX_DUMP_BYTES: u64 = 1 << 30;

/// Maximum milliseconds until a program opens a pipe for writing. A shell that starts the program
/// itself, as for `<(...)`, needs less.
const WRITER_WAIT: u16 = 5000;

/// Reads a file or a pipe of at most `max_bytes` bytes. A pipe that no program opens for writing is
/// an error after [`WRITER_WAIT`], one that is closed without a byte at once. Stops as
/// [`read_all_while`] does.
///
/// # Errors
///
/// Errors of the system, and [`io::ErrorKind::FileTooLarge`]: for a regular file before it is read,
/// for a pipe or a device after `max_bytes` bytes.
pub(crate) fn read_while(
    path: &Path,
    max_bytes: u64,
    is_expected: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    let first = if metadata.file_type().is_fifo() {
        first_byte(&file)?
    } else {
        Vec::new()
    };
    if metadata.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    let rest = WaitingFile(file);
    read_all_while(Cursor::new(first).chain(rest), max_bytes, is_expected)
}

/// Reads a regular file of at most `max_bytes` bytes. Never blocks: a pipe or a device, which may
/// have replaced the file meanwhile, is an error.
///
/// # Errors
///
/// Errors of [`read_while`], and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub(crate) fn read_regular_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid("is not a regular file"));
    }
    if metadata.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    read_all_while(file, max_bytes, |_| true)
}

/// Reads UTF-8 text from a file or a pipe of at most `max_bytes` bytes.
///
/// # Errors
///
/// Errors of [`read_while`], and [`io::ErrorKind::InvalidData`].
pub(crate) fn read_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read_while(path, max_bytes, |_| true)?)
}

/// Reads UTF-8 text from a regular file. Never blocks, as [`read_regular_file`].
///
/// # Errors
///
/// Errors of [`read_regular_file`], and [`io::ErrorKind::InvalidData`].
pub(crate) fn regular_file_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read_regular_file(path, max_bytes)?)
}

/// Bytes of each piece of an input that is checked while it is read.
const PIECE_BYTES: u64 = 1 << 20;

/// Reads at most `max_bytes` bytes, up to the end or to the first piece of [`PIECE_BYTES`] for
/// which `is_expected` is false, and returns everything up to that: input of the wrong format may
/// be endless, and its beginning is enough for the parser of the caller to fail. A last, shorter
/// piece is not checked.
///
/// # Errors
///
/// Errors of the system, and [`io::ErrorKind::FileTooLarge`] if there is more.
pub(crate) fn read_all_while(
    from: impl Read,
    max_bytes: u64,
    is_expected: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut from = from.take(max_bytes + 1);
    loop {
        let start = text.len();
        (&mut from).take(PIECE_BYTES).read_to_end(&mut text)?;
        if text.len() as u64 > max_bytes {
            return Err(too_large(max_bytes));
        }
        let piece = text.get(start..).unwrap_or_default();
        let is_last = (piece.len() as u64) < PIECE_BYTES;
        if is_last || !is_expected(piece) {
            return Ok(text);
        }
    }
}

/// Reports whether the path leads to a regular file, which can be read again, and not to a pipe or
/// a device, which may block for ever.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Opens a file, in non-blocking mode: opening a pipe does not wait for a program that writes.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    options.open(path)
}

/// Waits for the first byte of a pipe, at most [`WRITER_WAIT`], and returns it. Returns none if a
/// program has opened the pipe and not written yet. Fails if no program has opened it.
fn first_byte(mut pipe: &File) -> io::Result<Vec<u8>> {
    let mut byte = vec![0];
    let mut wait = Some(PollTimeout::from(WRITER_WAIT));
    loop {
        match (pipe.read(&mut byte), wait) {
            // No program has opened the other end yet, or all have closed it.
            (Ok(0), Some(time)) => wait_for_data(pipe, time)?,
            (Ok(0), None) => return Err(invalid("is a pipe that no program writes to")),
            (Ok(_), _) => return Ok(byte),
            (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            (Err(error), _) => return Err(error),
        }
        wait = None;
    }
}

/// Waits until a pipe has data, or no program has it open for writing any more.
fn wait_for_data(file: &File, time: PollTimeout) -> io::Result<()> {
    let mut readable = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut readable, time) {
            Ok(_) => return Ok(()),
            // A signal. Waits once more, as long: signals are rare.
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// File in non-blocking mode whose reads wait for data nevertheless.
struct WaitingFile(File);

impl Read for WaitingFile {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            wait_for_data(&self.0, PollTimeout::NONE)?;
        }
    }
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
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

    fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        read_while(path, max_bytes, |_| true)
    }

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
    #[expect(clippy::disallowed_methods, reason = "no crate makes pipes")]
    fn pipes_are_read_and_never_waited_for_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let error = read(&path, MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "is a pipe that no program writes to");
        let error = read_regular_file(&path, MAX_TEST_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "is not a regular file");
        let writer = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, "a".repeat(100_000)).unwrap()
        });
        assert_eq!(read(&path, MAX_TEST_BYTES).unwrap().len(), 100_000);
        writer.join().unwrap();
    }

    #[test]
    fn unexpected_input_is_read_no_further() {
        let endless = io::repeat(b'y');
        let read = read_all_while(endless, MAX_TEST_BYTES, |piece| piece.contains(&b':'));
        assert_eq!(read.unwrap().len() as u64, PIECE_BYTES);
        let later = io::Cursor::new(":".repeat(1 << 20)).chain(io::repeat(b'y'));
        let read = read_all_while(later, MAX_TEST_BYTES, |piece| piece.contains(&b':'));
        assert_eq!(read.unwrap().len() as u64, 2 * PIECE_BYTES);
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
