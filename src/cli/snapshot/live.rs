//! The kernel's rules, each family by one run of its save program.

use anyhow::Context;

use super::save::mention_opaque;
use super::{Origin, Snapshot};
use crate::cli::progress::Progress;
use crate::host::{BackendChoice, Programs, RunError, Sysctls, local_addresses, other_backend};
use crate::net::IpFamily;
use crate::rules::{Backend, RuleSet, Table};

pub(in crate::cli) fn read(backend: BackendChoice) -> anyhow::Result<Snapshot> {
    let _progress = Progress::start("reading the kernel's rules");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(snapshot(backend))
}

async fn snapshot(backend: BackendChoice) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot {
        node_addresses: local_addresses()?,
        ..Snapshot::default()
    };
    for family in IpFamily::ALL {
        if Sysctls::default().lacks(family) {
            continue;
        }
        let read = async {
            let programs = Programs::discover(backend, family).await?;
            let text = programs.save_all().await?;
            Ok::<_, RunError>((programs, text))
        };
        let hint = "hint: a dump can be looked at without root: --from-save FILE";
        let (programs, text) = read
            .await
            .map_err(|error| anyhow::anyhow!("{error}\n{hint}"))?;
        let program = programs.save.to_string_lossy();
        let rules = RuleSet::parse(&text).with_context(|| format!("what `{program}` printed"))?;
        mention_opaque(&program, &rules);
        *snapshot.rules.get_mut(family) = rules;
        snapshot.families.insert(family);
        snapshot.origin = Origin::Live(programs.backend());
    }
    if let Origin::Live(backend) = snapshot.origin
        && !snapshot
            .families
            .iter()
            .any(|family| has_services(snapshot.rules.get(*family)))
    {
        look_elsewhere(backend).await;
    }
    Ok(snapshot)
}

/// Whether some proxy writes here.
fn has_services(rules: &RuleSet) -> bool {
    rules.chain(Table::Nat, "KUBE-SERVICES").is_some()
}

/// Where one backend has no rules of a proxy, the other may.
async fn look_elsewhere(shown: Backend) {
    for family in IpFamily::ALL {
        if let Some(other) = other_backend(shown, family).await {
            tracing::warn!(
                "no proxy's rules are among those of {shown}, which are shown; there are some of \
                 {other}: --iptables-backend={other}"
            );
            return;
        }
    }
}
