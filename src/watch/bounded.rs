//! Files that others wrote, up to a limit.
//!
//! Apart because manifests, dumps, the configuration and credentials are all read the same way: a
//! path may lead to a device that never ends, or to a file that was never meant.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// In bytes, of a file of flags or credentials. A ConfigMap has a megabyte at most.
pub const LARGEST_CONFIGURATION: u64 = 4 << 20;

/// In bytes, of a manifest. All of 50,000 Services and their slices are a quarter of it; read, each
/// byte takes several more of memory.
pub const LARGEST_MANIFEST: u64 = 512 << 20;

/// In bytes, of a dump of rules. All of 50,000 Services with ten endpoints each are half of it.
pub const LARGEST_DUMP: u64 = 1 << 30;

/// The whole content of a file, or a pipe, of at most `most` bytes.
///
/// # Errors
///
/// Those of the system, and [`io::ErrorKind::FileTooLarge`]. Of a file too large nothing is read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(File::open(path)?, most)
}

/// The same as text.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// The same of what is to be a file, for who cannot wait: a path that was a file may lead to a pipe
/// now, and to open that waits for somebody to write.
///
/// # Errors
///
/// Also if it is anything else.
pub fn file_to_string(path: &Path, most: u64) -> io::Result<String> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file"));
    }
    text(whole(file, most)?)
}

/// All that comes until the end, of at most `most` bytes.
pub fn read_all(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok(text)
}

/// Whether the path leads to a file that can be read again, and not to a pipe or a device, which
/// may have somebody wait for ever.
pub fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// What says at once how large it is is not read if that is too much.
fn whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > most {
        return Err(too_large(most));
    }
    read_all(file, most)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn too_large(most: u64) -> io::Error {
    let problem = format!("larger than {} MiB, the most that is read", most >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 3 << 20;

    #[test]
    fn what_is_too_large_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some");
        let exact = File::create(&path).unwrap();
        exact.set_len(MOST).unwrap();
        assert_eq!(read(&path, MOST).unwrap().len() as u64, MOST);
        exact.set_len(1 << 31).unwrap();
        let error = read(&path, MOST).unwrap_err();
        assert_eq!(
            error.to_string(),
            "larger than 3 MiB, the most that is read"
        );
        assert!(is_file(&path));
    }

    #[test]
    fn what_has_no_end_is_given_up() {
        let error = read(Path::new("/dev/zero"), MOST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(!is_file(Path::new("/dev/zero")));
    }

    #[test]
    fn directories_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path(), MOST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(!is_file(directory.path()));
    }

    #[test]
    fn text_is_utf8() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some");
        fs::write(&path, "wägen").unwrap();
        assert_eq!(read_to_string(&path, MOST).unwrap(), "wägen");
        fs::write(&path, b"\xff").unwrap();
        let error = read_to_string(&path, MOST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
