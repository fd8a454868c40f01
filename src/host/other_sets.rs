//! Both sets of programs.
//!
//! Apart from [`programs`](super::programs), which chooses one set, because packets meet the rules of
//! both: the kernel has two, and programs of one do not see those of the other.

use super::{BackendChoice, Programs};
use crate::net::IpFamily;

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
