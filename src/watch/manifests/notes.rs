//! Notes about objects that look as if they took effect, and do not.

use std::collections::HashSet;
use std::path::Path;

use super::document::NamespacedName;
use super::parse::FileContent;

/// Maximum names in a note.
const MAX_NAMES: usize = 3;

/// Returns a line for each kind of ignored input, in a fixed order.
pub(super) fn notes<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)> + Clone,
) -> Vec<String> {
    let kustomizations = files.clone().filter(|(path, _)| is_kustomization(path));
    let kustomizations = kustomizations.map(|(path, _)| {
        format!(
            "`{}` is a kustomization and is not applied; render it first with `kubectl kustomize`",
            path.display()
        )
    });
    kustomizations.chain(endpoints(files)).collect()
}

fn is_kustomization(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    matches!(name, Some("kustomization.yaml" | "kustomization.yml"))
}

/// Returns the note about `Endpoints` whose Services have no EndpointSlices.
fn endpoints<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)> + Clone,
) -> Option<String> {
    let slices = files
        .clone()
        .flat_map(|(_, content)| &content.endpoint_slices);
    let with_slices: HashSet<(&str, String)> = slices
        .filter_map(|slice| {
            let service = slice.metadata.label("kubernetes.io/service-name")?;
            Some((slice.metadata.namespace.as_str(), service.into_owned()))
        })
        .collect();
    let all = files.flat_map(|(_, content)| &content.endpoints);
    let mut unused: Vec<&NamespacedName> = all
        .filter(|one| !with_slices.contains(&(one.namespace.as_str(), one.name.clone())))
        .collect();
    unused.sort();
    unused.dedup();
    if unused.is_empty() {
        return None;
    }
    let shown = unused.iter().take(MAX_NAMES);
    let shown: Vec<String> = shown
        .map(|NamespacedName { namespace, name }| format!("`{namespace}/{name}`"))
        .collect();
    let more = if unused.len() > MAX_NAMES {
        ", ..."
    } else {
        ""
    };
    Some(format!(
        "Endpoints {}{more} without EndpointSlices are ignored: rules come from EndpointSlices",
        shown.join(", ")
    ))
}
