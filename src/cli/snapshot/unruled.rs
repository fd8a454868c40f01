//! Services in the manifests that have no rules: only who asks for one of them wants to know.
//!
//! Apart because manifests are read once more for it, after a name was not found.

use crate::cli::file::Shape;
use crate::config::{OriginArgs, RenderConfig, Source};
use crate::explain::{self, Unanswered, Unruled, WithoutRules};
use crate::ingest::ServiceObject;
use crate::inspect::catalog::NoMatches;
use crate::watch::manifests::{self, ManifestOptions};

/// The result, and of names that fit nothing why, if the objects tell.
pub(in crate::cli) fn told(
    found: Result<(), NoMatches>,
    objects: impl FnOnce() -> anyhow::Result<Option<Vec<Unruled>>>,
) -> anyhow::Result<()> {
    let Err(NoMatches(errors)) = found else {
        return Ok(());
    };
    let objects = objects()?;
    let tell = |error| match explain::unanswered(error, objects.as_deref()) {
        None => error.to_string(),
        Some(because @ Unanswered::Because(_)) => because.to_string(),
        Some(hint @ Unanswered::Perhaps) => format!("{error}\n{hint}"),
    };
    let told: Vec<String> = errors.iter().map(tell).collect();
    anyhow::bail!("{}", told.join("\nerror: "))
}

/// Those of manifests, if rules come from some.
pub(in crate::cli) fn of_origin(args: &OriginArgs) -> anyhow::Result<Option<Vec<Unruled>>> {
    if !args.from_save.is_empty() || !args.names_objects() {
        return Ok(None);
    }
    // It was read before; a pipe can be read only once.
    match Shape::read(&args.file, &args.rules) {
        Ok(shape) => of_config(&shape.desired(&args.source)?),
        Err(_) => Ok(None),
    }
}

/// Those that manifests describe. `None`: they are not known, of a cluster, which is not asked for
/// headless ones; or of standard input, which cannot be read again.
pub(in crate::cli) fn of_config(config: &RenderConfig) -> anyhow::Result<Option<Vec<Unruled>>> {
    let Source::Manifests {
        path,
        service_cidrs,
    } = &config.source
    else {
        return Ok(None);
    };
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let options = ManifestOptions {
        node_name: config.node_name.as_str().into(),
        service_ranges: *service_cidrs,
    };
    let manifests = manifests::load(path, &options)?;
    let headless = manifests.headless.iter();
    let headless = headless.map(|one| of(one, WithoutRules::Headless));
    let aliases = manifests.services.iter();
    let aliases = aliases.filter(|one| one.spec.type_ == "ExternalName");
    let aliases = aliases.map(|one| of(one, WithoutRules::ExternalName));
    Ok(Some(headless.chain(aliases).collect()))
}

fn of(service: &ServiceObject, why: WithoutRules) -> Unruled {
    Unruled {
        namespace: service.metadata.namespace.as_str().into(),
        name: service.metadata.name.as_str().into(),
        why,
    }
}
