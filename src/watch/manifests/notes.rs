//! Notes about objects that have no effect, although their author may expect one.

use std::collections::HashSet;
use std::path::Path;

use super::document::NamespacedName;
use super::merge::Manifests;
use super::parse::FileContent;
use crate::ingest::SERVICE_NAME_LABEL;

/// Maximum names in a note.
const MAX_NAMES: usize = 3;

/// Returns a note about each kustomization: it is not rendered, so its changes have no effect.
pub(super) fn kustomizations<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)>,
) -> impl Iterator<Item = String> {
    let unrendered = files.filter(|(path, content)| is_kustomization(path, content));
    unrendered.map(|(path, _)| format!("`{}` {}", path.display(), not_rendered(path)))
}

/// Reports whether a file is a kustomization, by its kind, or by its name if an object has no kind.
pub(super) fn is_kustomization(path: &Path, content: &FileContent) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_named = name.is_some_and(|name| KUSTOMIZATIONS.contains(&name));
    content.kustomizations > 0 || is_named && content.kindless > 0
}

/// Names of the file in which `kubectl kustomize` expects a kustomization.
///
/// Upstream: sigs.k8s.io/kustomize/api/konfig, `RecognizedKustomizationFileNames`
pub(super) const KUSTOMIZATIONS: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Returns the problem of a kustomization.
pub(super) fn not_rendered(path: &Path) -> String {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = parent.unwrap_or(Path::new(".")).display();
    format!("is a kustomization, which is not rendered: run `kubectl kustomize {directory}`")
}

/// Returns the note about manifests without Services that kube-proxy serves.
pub(super) fn without_services(manifests: &Manifests) -> String {
    let counts = [
        (manifests.headless.len(), "headless"),
        (
            manifests.of_other_proxies,
            "with the label service.kubernetes.io/service-proxy-name",
        ),
    ];
    let unserved = counts.into_iter().filter(|(count, _)| *count > 0);
    let unserved: Vec<String> = unserved
        .map(|(count, of)| format!("{count} {of}"))
        .collect();
    let found = if unserved.is_empty() {
        "no Services found".to_owned()
    } else {
        format!(
            "no Services that kube-proxy serves: {}",
            unserved.join(", ")
        )
    };
    let ignored = manifests.ignored;
    format!("{found}; {ignored} objects of other kinds are ignored")
}

/// Returns the note about `Endpoints` whose Services have no EndpointSlices.
pub(super) fn endpoints<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)> + Clone,
) -> Option<String> {
    let slices = files
        .clone()
        .flat_map(|(_, content)| &content.endpoint_slices);
    let with_slices: HashSet<(&str, String)> = slices
        .filter_map(|slice| {
            let service = slice.metadata.label(SERVICE_NAME_LABEL)?;
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
