//! Notes about objects that have no effect, although their author may expect one.

use std::collections::HashSet;
use std::path::Path;

use super::merge::Manifests;
use super::parse::FileContent;
use crate::ingest::{ObjectName, SERVICE_NAME_LABEL};

/// Maximum names in a note.
const MAX_NAMES: usize = 3;

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
        .map(|(count, description)| format!("{count} {description}"))
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
pub(super) fn unused_endpoints_objects<'a>(
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
    let all = files.flat_map(|(_, content)| &content.endpoints_objects);
    let mut unused: Vec<&ObjectName> = all
        .filter(|one| !with_slices.contains(&(one.namespace.as_str(), one.name.clone())))
        .collect();
    unused.sort();
    unused.dedup();
    if unused.is_empty() {
        return None;
    }
    let shown = unused.iter().take(MAX_NAMES);
    let shown: Vec<String> = shown
        .map(|ObjectName { namespace, name }| format!("`{namespace}/{name}`"))
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
