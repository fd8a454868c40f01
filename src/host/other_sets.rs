//! The set of programs that is not used: whether a proxy left rules with it.
//!
//! Apart from [`programs`](super::programs), which chooses one set, because packets meet the rules
//! of both: the kernel has two, and programs of one do not see those of the other.

use super::programs::Search;
use super::{BackendChoice, Programs, RunError};
use crate::net::IpFamily;
use crate::rules::Backend;

/// The programs of each backend that this machine has for a family; with a choice of one backend,
/// those alone.
pub async fn all_programs(choice: BackendChoice, family: IpFamily) -> Vec<Programs> {
    use BackendChoice::{Auto, Legacy, Nft, Path};

    let wanted: &[BackendChoice] = match choice {
        // A machine with one set may only have the plain names.
        Path | Auto => &[Nft, Legacy, Path],
        Nft => &[Nft],
        Legacy => &[Legacy],
    };
    let mut found: Vec<Programs> = Vec::new();
    for choice in wanted {
        if let Ok(programs) = Programs::discover(*choice, family).await {
            let is_new = |other: &Programs| other.backend() != programs.backend();
            if found.iter().all(is_new) {
                found.push(programs);
            }
        }
    }
    found
}

/// The other backend, if a proxy has rules there, too.
pub async fn other_backend(used: Backend, family: IpFamily) -> Option<Backend> {
    let (other, choice) = match used {
        Backend::Nft => (Backend::Legacy, BackendChoice::Legacy),
        Backend::Legacy => (Backend::Nft, BackendChoice::Nft),
    };
    // A machine without these programs has no such rules, as far as anybody can tell.
    let programs = Programs::discover(choice, family).await.ok()?;
    let has_services = programs.backend() == other && has_services(&programs).await.ok()?;
    has_services.then_some(other)
}

/// The backend that kubelet uses, if that can be told.
pub async fn hinted_backend(family: IpFamily) -> Option<Backend> {
    Search::new(None, family).hinted().await
}

/// Whether some proxy writes here.
async fn has_services(programs: &Programs) -> Result<bool, RunError> {
    // All tables, as asking legacy for one makes it.
    let mut is_found = false;
    let mut look = |line: &str| is_found |= line.starts_with(":KUBE-SERVICES ");
    programs.save_lines(&mut look).await?;
    Ok(is_found)
}
