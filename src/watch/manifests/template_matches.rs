//! Counts the Pod templates that selectors match before and after a change of manifests.
//!
//! If only a selector or only the labels of a template change, a Service may no longer have Pods.
//! The assumed endpoints do not show that, because each selector has two in both states.

use std::collections::BTreeMap;

use super::pod_templates::{Labels, StateTemplates, labels};
use super::raw::{RawKey, RawKind, RawObject};
use crate::model::Kind;

/// Service whose selector matches Pod templates only before or only after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateMatches {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Number of templates before.
    pub before: usize,
    /// Number of templates after.
    pub after: usize,
}

/// Returns the Services of both states whose selectors match templates in one of them only, as far
/// as these are known. Sorted by name.
pub(super) fn template_matches(
    [before, after]: [&BTreeMap<RawKey, RawObject>; 2],
    [old_templates, new_templates]: [&StateTemplates; 2],
) -> Vec<TemplateMatches> {
    let services = before.iter().filter_map(|(key, old)| {
        let is_service = old.kind == RawKind::Ingested(Kind::Service);
        Some((old, after.get(key)?)).filter(|_| is_service)
    });
    let matches = services.filter_map(|(old, new)| {
        let [old_selector, new_selector] = [old, new].map(selector);
        let (old_selector, new_selector) = (old_selector?, new_selector?);
        let matches = TemplateMatches {
            namespace: new.namespace.clone(),
            service: new.name.clone(),
            before: old_templates.count(&old.namespace, &old_selector)?,
            after: new_templates.count(&new.namespace, &new_selector)?,
        };
        Some(matches).filter(|one| (one.before == 0) != (one.after == 0))
    });
    matches.collect()
}

/// Returns the selector of a Service; `None` if a controller creates no EndpointSlices for it.
fn selector(service: &RawObject) -> Option<Labels> {
    let value = &service.value;
    let selector = labels(value.pointer("/spec/selector"));
    let is_external_name = value.pointer("/spec/type") == Some(&"ExternalName".into());
    Some(selector).filter(|labels| !labels.is_empty() && !is_external_name)
}
