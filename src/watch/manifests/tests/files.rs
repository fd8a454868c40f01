//! Tests of `files`.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn an_unreadable_entry_is_an_error_and_not_a_deleted_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("a.yaml"), "").unwrap();
    // Neither has a target.
    symlink("nothing", at("b.yaml")).unwrap();
    symlink("c.yaml", at("c.yaml")).unwrap();
    let found = find(directory.path()).unwrap();
    assert_eq!(found.files, BTreeSet::from([at("a.yaml")]));
    assert_eq!(found.unusable.len(), 2);
    // The name is longer than any file system allows; root may read all others.
    symlink("x".repeat(300), at("d.yaml")).unwrap();
    let error = find(directory.path()).unwrap_err();
    assert_eq!(error.file, at("d.yaml"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no crate makes pipes")]
fn entries_that_are_not_regular_files_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("a.yaml"), "").unwrap();
    symlink("nothing", at("b.yaml")).unwrap();
    symlink("nothing", at("c")).unwrap();
    symlink("nothing", at("c.md")).unwrap();
    symlink("nothing", at(".d.yaml")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .args([at("e.yaml"), at("e.txt")])
        .status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("f.yaml")).unwrap();
    symlink("/dev/zero", at("g.yaml")).unwrap();
    symlink("e.yaml", at("h.yaml")).unwrap();
    let found = find(directory.path()).unwrap();
    assert_eq!(found.files, BTreeSet::from([at("a.yaml")]));
    let named = found.unusable.iter().map(|error| {
        let name = error.file.file_name().unwrap().to_str().unwrap();
        format!("{name} {}", error.reason)
    });
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            "b.yaml is a symbolic link to `nothing`, which does not exist",
            "c is a symbolic link to `nothing`, which does not exist",
            "e.yaml is neither a regular file nor a directory",
            "f.yaml is neither a regular file nor a directory",
            "g.yaml is neither a regular file nor a directory",
            "h.yaml is neither a regular file nor a directory",
        ]
    );
    assert!(check_path(&at("e.yaml")).is_err());
}

#[test]
fn a_directory_that_is_deleted_while_its_parent_is_listed_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let deleted = directory.path().join("deleted");
    let mut files = ManifestFiles::default();
    // The path itself has to exist.
    assert!(files.add_directory(&deleted, &mut HashSet::new()).is_err());
    let mut entered = HashSet::from([directory.path().to_owned()]);
    files.add_directory(&deleted, &mut entered).unwrap();
    assert!(files.files.is_empty() && files.unusable.is_empty());
}
