//! What kube-proxy's mode nftables leaves behind: one table for each family, which goes on sending
//! packets to Pods that are gone.
//!
//! Apart because it is of another mode, and of another program, `nft`.
//!
//! Upstream: pkg/proxy/nftables/proxier.go, `CleanupLeftovers` (v1.36)

use std::ffi::OsStr;

use super::programs::query;
use super::{Changed, RunError};
use crate::net::IpFamily;

/// The name of both tables.
const TABLE: &str = "kube-proxy";

/// Deletes the table of a family, if it is there. A machine without `nft` has none that anybody
/// could have made there.
pub async fn remove_nft_table(family: IpFamily) -> Result<Changed, RunError> {
    remove(OsStr::new("nft"), family).await
}

async fn remove(nft: &OsStr, family: IpFamily) -> Result<Changed, RunError> {
    let family = match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    };
    let tables = match query(nft, &["list", "tables", family]).await {
        Err(RunError::Spawn { .. }) => return Ok(Changed::No),
        listed => listed?,
    };
    let wanted = format!("table {family} {TABLE}");
    if !tables.lines().any(|line| line.trim() == wanted) {
        return Ok(Changed::No);
    }
    let deleted = query(nft, &["delete", "table", family, TABLE]).await;
    deleted.map(|_| Changed::Yes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block_on, script, turn};
    use super::*;

    #[test]
    fn a_table_is_deleted_if_it_is_there() {
        let _turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let nft = folder.path().join("nft");
        let remove = |family| block_on(remove(nft.as_os_str(), family));
        assert_eq!(remove(IpFamily::V4).unwrap(), Changed::No);
        let calls = folder.path().join("calls");
        let body = format!(
            "echo \"$@\" >>{}; echo 'table ip filter'; echo 'table ip kube-proxy'",
            calls.display()
        );
        script(folder.path(), "nft", &body);
        assert_eq!(remove(IpFamily::V6).unwrap(), Changed::No);
        assert_eq!(remove(IpFamily::V4).unwrap(), Changed::Yes);
        let calls = std::fs::read_to_string(calls).unwrap();
        assert_eq!(
            calls,
            "list tables ip6\nlist tables ip\ndelete table ip kube-proxy\n"
        );
        script(folder.path(), "nft", "echo 'not permitted' >&2; exit 1");
        assert!(remove(IpFamily::V4).is_err());
    }
}
