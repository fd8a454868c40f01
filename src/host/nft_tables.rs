//! What kube-proxy's mode nftables leaves behind: one table for each family, which goes on sending
//! packets to Pods that are gone.
//!
//! Apart because it is of another mode, and of another program, `nft`.
//!
//! Upstream: pkg/proxy/nftables/proxier.go, `CleanupLeftovers` (v1.36)

use std::ffi::OsStr;
use std::time::Duration;

use super::programs::{query, query_within};
use super::{Changed, RunError};
use crate::net::IpFamily;

/// The name of both tables.
const TABLE: &str = "kube-proxy";

/// Whether the table of a family is there. A machine without `nft` has none that anybody could have
/// made there.
pub async fn has_nft_table(family: IpFamily) -> Result<bool, RunError> {
    has(OsStr::new("nft"), family).await
}

/// Deletes the table of a family, if it [is there](has_nft_table).
pub async fn remove_nft_table(family: IpFamily) -> Result<Changed, RunError> {
    remove(OsStr::new("nft"), family).await
}

/// Nothing else is begun before the tables are listed.
const DEADLINE: Duration = Duration::from_secs(5);

async fn has(nft: &OsStr, family: IpFamily) -> Result<bool, RunError> {
    let family = name(family);
    let tables = match query_within(DEADLINE, nft, &["list", "tables", family]).await {
        Err(RunError::Spawn { .. }) => return Ok(false),
        listed => listed?,
    };
    let wanted = format!("table {family} {TABLE}");
    Ok(tables.lines().any(|line| line.trim() == wanted))
}

async fn remove(nft: &OsStr, family: IpFamily) -> Result<Changed, RunError> {
    if !has(nft, family).await? {
        return Ok(Changed::No);
    }
    let deleted = query(nft, &["delete", "table", name(family), TABLE]).await;
    deleted.map(|_| Changed::Yes)
}

/// What nftables calls a family.
const fn name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    }
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
        let has = |family| block_on(has(nft.as_os_str(), family));
        let remove = |family| block_on(remove(nft.as_os_str(), family));
        assert_eq!(remove(IpFamily::V4).unwrap(), Changed::No);
        let calls = folder.path().join("calls");
        let body = format!(
            "echo \"$@\" >>{}; echo 'table ip filter'; echo 'table ip kube-proxy'",
            calls.display()
        );
        script(folder.path(), "nft", &body);
        assert!(has(IpFamily::V4).unwrap());
        assert_eq!(remove(IpFamily::V6).unwrap(), Changed::No);
        assert_eq!(remove(IpFamily::V4).unwrap(), Changed::Yes);
        let calls = std::fs::read_to_string(calls).unwrap();
        let expected = "list tables ip\nlist tables ip6\nlist tables ip\n";
        assert_eq!(calls, format!("{expected}delete table ip kube-proxy\n"));
        script(folder.path(), "nft", "echo 'not permitted' >&2; exit 1");
        assert!(has(IpFamily::V4).is_err());
        assert!(remove(IpFamily::V4).is_err());
    }
}
