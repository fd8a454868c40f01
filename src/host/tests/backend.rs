//! Choice of the backend, on hosts with one, with both, and with kubelet's hint.

use std::path::Path;

use crate::host::iptables::BinarySearch;
use crate::host::{BackendChoice, Binaries, RunError};
use crate::net::IpFamily;
use crate::rules::Backend;

use super::block_on;
use super::scripts::script;

/// Returns a host with the binaries of both backends, and a hint chain that only the binary
/// `hinted` finds. Legacy has table mangle for IPv4 only.
fn host_with_hint(folder: &Path, hinted: &str) -> BinarySearch {
    for prefix in ["iptables", "ip6tables"] {
        for (suffix, backend) in [("", "legacy"), ("-nft", "nf_tables"), ("-legacy", "legacy")] {
            let name = format!("{prefix}{suffix}");
            let hint = if name == hinted {
                "KUBE-IPTABLES-HINT"
            } else {
                "KUBE-OTHER"
            };
            let body = format!(
                "case \"$*\" in --version) echo '{name} v1.8.9 ({backend})';;
                *) exit 1;; esac"
            );
            script(folder, &name, &body);
            let body = format!("[ \"$*\" = '-t mangle' ] && echo ':{hint} - [0:0]'");
            script(folder, &format!("{name}-save"), &body);
        }
    }
    std::fs::write(folder.join("ip_tables_names"), "nat\nmangle\n").unwrap();
    std::fs::write(folder.join("ip6_tables_names"), "nat\n").unwrap();
    BinarySearch {
        folder: Some(folder.to_owned()),
        family: IpFamily::V6,
        net: folder.to_owned(),
        has_nft_chain: match hinted {
            "iptables-nft" => |family, table, chain| {
                (family, table, chain) == (IpFamily::V4, "mangle", "KUBE-IPTABLES-HINT")
            },
            "ip6tables-nft" => |family, table, chain| {
                (family, table, chain) == (IpFamily::V6, "mangle", "KUBE-KUBELET-CANARY")
            },
            _ => |_, _, _| false,
        },
    }
}

/// Finds the binaries with plain names in a folder.
async fn in_folder(folder: &Path) -> Result<Binaries, RunError> {
    let search = BinarySearch::new(Some(folder.to_owned()), IpFamily::V4);
    search.discover(BackendChoice::Path).await
}

#[test]
fn the_backend_is_the_one_that_kubelet_uses() {
    let found = |hinted: &str, choice| {
        let folder = tempfile::tempdir().unwrap();
        let search = host_with_hint(folder.path(), hinted);
        let programs = block_on(search.discover(choice)).unwrap();
        let restore = programs.restore.to_string_lossy().into_owned();
        let name = restore.rsplit('/').next().unwrap().to_owned();
        (name, programs.backend())
    };
    let nft = || ("ip6tables-nft-restore".to_owned(), Backend::Nft);
    let legacy = || ("ip6tables-legacy-restore".to_owned(), Backend::Legacy);
    let plain = || ("ip6tables-restore".to_owned(), Backend::Legacy);
    let auto = BackendChoice::default();
    assert_eq!(found("iptables-nft", auto), nft());
    assert_eq!(found("ip6tables-nft", auto), nft());
    assert_eq!(found("iptables-legacy", auto), legacy());
    // A query for the table would create it.
    assert_eq!(found("ip6tables-legacy", auto), plain());
    assert_eq!(found("none", auto), plain());
    assert_eq!(found("iptables-nft", BackendChoice::Legacy), legacy());
    assert_eq!(found("iptables-nft", BackendChoice::Path), plain());
}

/// The wrapper of the official image cannot create its links there.
#[test]
fn a_wrapper_on_a_read_only_file_system_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let search = host_with_hint(folder.path(), "none");
    let wrapper = "echo 'ERROR: No valid subcommand given' >&2; exit 1";
    script(folder.path(), "ip6tables", wrapper);
    let programs = block_on(search.discover(BackendChoice::Auto)).unwrap();
    assert_eq!(programs.iptables, folder.path().join("ip6tables-nft"));
}

/// Plain names of legacy on a kernel without ip_tables, as `update-alternatives` leaves them.
#[test]
fn legacy_is_skipped_on_a_kernel_without_legacy_tables() {
    let folder = tempfile::tempdir().unwrap();
    let plain = |exit: u8, error: &str| {
        let body = format!(
            "case \"$*\" in --version) echo 'iptables v1.8.9 (legacy)';; *) echo '{error}' >&2; exit \
             {exit};; esac"
        );
        script(folder.path(), "iptables", &body);
    };
    let version = "echo 'iptables v1.8.9 (nf_tables)'";
    script(folder.path(), "iptables-nft", version);
    let search = BinarySearch {
        folder: Some(folder.path().to_owned()),
        net: folder.path().to_owned(),
        has_nft_chain: |_, _, _| false,
        ..BinarySearch::new(None, IpFamily::V4)
    };
    let name = |found: Result<Binaries, RunError>| {
        let found = found.map(|found| found.restore.to_string_lossy().into_owned());
        found.map(|path| path.rsplit('/').next().unwrap().to_owned())
    };
    let usable = |choice| name(block_on(search.discover_usable(choice)));
    plain(
        3,
        "iptables v1.8.9 (legacy): can'\\''t initialize iptables table `nat'\\'': Table does not exist",
    );
    assert_eq!(usable(BackendChoice::Auto).unwrap(), "iptables-nft-restore");
    let error = usable(BackendChoice::Path).unwrap_err().to_string();
    let expected = "table `nat': Table does not exist";
    assert!(error.contains(expected), "{error}");
    // Commands that only read create no table, and legacy without table nat has no rules.
    let read = || name(block_on(search.discover(BackendChoice::Auto))).unwrap();
    assert_eq!(read(), "iptables-nft-restore");
    std::fs::write(folder.path().join("ip_tables_names"), "nat\n").unwrap();
    assert_eq!(read(), "iptables-restore");
    // The lock is free a moment later.
    plain(4, "Another app is currently holding the xtables lock.");
    assert!(usable(BackendChoice::Auto).is_err());
    // A host without nft has the error of the plain names.
    plain(3, "no table");
    script(folder.path(), "iptables-nft", "exit 1");
    let error = usable(BackendChoice::Auto).unwrap_err().to_string();
    assert!(error.contains("no table"), "{error}");
    plain(0, "");
    assert_eq!(usable(BackendChoice::Auto).unwrap(), "iptables-restore");
}

#[test]
fn a_host_with_plain_names_only_uses_them() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "iptables", "echo 'iptables v1.8.9 (legacy)'");
    // Also with a hint, whose binaries are missing.
    let searches = [|_, _: &str, _: &str| false, |_, _: &str, _: &str| true].map(|has_nft_chain| {
        BinarySearch {
            has_nft_chain,
            ..BinarySearch::new(Some(folder.path().to_owned()), IpFamily::V4)
        }
    });
    for search in searches {
        let programs = block_on(search.discover(BackendChoice::Auto)).unwrap();
        assert_eq!(programs.save, folder.path().join("iptables-save"));
    }
    script(folder.path(), "iptables", "echo hello");
    let error = block_on(in_folder(folder.path())).unwrap_err().to_string();
    assert!(error.ends_with("no version in `hello`"), "{error}");
}

#[test]
fn iptables_before_1_6_2_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let found = |version: &str| {
        let body = format!("echo 'iptables v{version}'");
        script(folder.path(), "iptables", &body);
        block_on(in_folder(folder.path()))
    };
    for supported in ["1.6.2", "1.8.4 (nf_tables)", "1.10 (legacy)"] {
        assert!(found(supported).is_ok(), "{supported}");
    }
    for (old, number) in [("1.4.21", "1.4.21"), ("1.6.1", "1.6.1"), ("1.6", "1.6.0")] {
        let error = found(old).unwrap_err().to_string();
        let expected = format!(
            "iptables {number} is too old: must be 1.6.2 or newer\nhint: upgrade the package"
        );
        assert!(error.contains(&expected), "{error}");
    }
}
