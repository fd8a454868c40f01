//! Tests of `sysctl`.

use super::*;

#[test]
fn settings_are_read_and_written() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("net/ipv4/conf/all");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("route_localnet"), "0\n").unwrap();
    let sysctls = Sysctls::new(root.path());

    assert_eq!(sysctls.read(ROUTE_LOCALNET).unwrap(), 0);
    assert_eq!(sysctls.ensure(ROUTE_LOCALNET, 1).unwrap(), Changed::Yes);
    assert_eq!(sysctls.ensure(ROUTE_LOCALNET, 1).unwrap(), Changed::No);
    assert_eq!(sysctls.read("net.ipv4.conf.all.route_localnet").unwrap(), 1);

    let missing = sysctls.write(TCP_BE_LIBERAL, 1).unwrap_err();
    assert_eq!(
        missing.to_string(),
        format!("sysctl `{TCP_BE_LIBERAL}` does not exist\nhint: run `modprobe nf_conntrack`")
    );
    std::fs::write(folder.join("odd"), "many\n").unwrap();
    let odd = sysctls.read("net/ipv4/conf/all/odd").unwrap_err();
    assert_eq!(
        odd.to_string(),
        "cannot read sysctl `net/ipv4/conf/all/odd`: `many` is not a valid integer"
    );
}

#[test]
fn the_hint_depends_on_whether_privileges_suffice() {
    use std::os::unix::fs::PermissionsExt;

    let hint = |kind: io::ErrorKind, mode| {
        let permissions = Permissions::from_mode(mode);
        hint(&kind.into(), Some(&permissions))
    };
    let denied = io::ErrorKind::PermissionDenied;
    assert_eq!(hint(denied, 0o100_644), UNPRIVILEGED);
    assert_eq!(hint(denied, 0o100_444), OTHER_NAMESPACE);
    assert_eq!(
        hint(io::ErrorKind::ReadOnlyFilesystem, 0o100_444),
        UNPRIVILEGED
    );
    assert_eq!(hint(io::ErrorKind::InvalidInput, 0o100_444), "");
}
