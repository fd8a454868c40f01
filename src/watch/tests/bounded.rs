//! Tests of `bounded`.

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
fn text_is_utf8() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some");
    fs::write(&path, "wägen").unwrap();
    assert_eq!(read_to_string(&path, MAX_TEST_BYTES).unwrap(), "wägen");
    fs::write(&path, b"\xff").unwrap();
    let error = read_to_string(&path, MAX_TEST_BYTES).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
