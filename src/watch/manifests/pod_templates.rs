//! Resolves named ports by the templates of Pods in the same manifests, and counts the templates
//! that selectors match before and after a change.
//!
//! If only a selector or only the labels of a template change, a Service may no longer have Pods.
//! The assumed endpoints do not show that, because each selector has two in both states.
//!
//! # Source
//!
//! Upstream: k8s.io/endpointslice/utils.go, `FindPort` (v1.37)

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::raw::{RawKey, RawKind, RawObject};
use crate::model::Kind;

/// Labels of a selector or of a Pod.
pub(super) type Labels = BTreeMap<String, String>;

/// Pods, and templates of Pods in objects of any kind.
#[derive(Debug, Default)]
struct PodTemplates {
    templates: Vec<PodTemplate>,
}

#[derive(Debug)]
struct PodTemplate {
    namespace: String,
    labels: Labels,
    /// Name, protocol and number of each named port. The first match is used.
    ports: Vec<(String, String, u16)>,
}

/// Pod templates that are known of one state of manifests.
#[derive(Debug)]
pub(super) struct StateTemplates {
    own: PodTemplates,
    /// Templates of the other state in files that cannot be used in this one.
    of_other_state: PodTemplates,
    /// A file that cannot be used may have further templates.
    is_partial: bool,
}

/// Numbers that Pod templates have for a named port.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NamedPortNumbers {
    /// Numbers of templates of the same state. At least one.
    Known(BTreeSet<u16>),
    /// Numbers of templates of the other state. At least one.
    OfOtherState(BTreeSet<u16>),
    /// The templates that match have no such name.
    NotInTemplates,
    /// No template matches, and a file that cannot be used may have one.
    MayBeInUnusableFile,
    /// No template matches.
    NoTemplate,
}

impl StateTemplates {
    /// Takes the templates of a state, those of the other state in files that cannot be used in
    /// this one, and whether such files may have more.
    pub(super) fn new(
        own: &BTreeMap<RawKey, RawObject>,
        of_other_state: &BTreeMap<RawKey, RawObject>,
        is_partial: bool,
    ) -> Self {
        // An object that was moved to another file is known.
        let lost = of_other_state.iter();
        let lost = lost.filter(|(key, _)| !own.contains_key(key));
        Self {
            own: PodTemplates::of(own.values()),
            of_other_state: PodTemplates::of(lost.map(|(_, object)| object)),
            is_partial,
        }
    }

    /// Returns the number of templates that a selector matches; `None` if it is unknown whether
    /// there is any, because a file cannot be used.
    pub(super) fn count(&self, namespace: &str, selector: &Labels) -> Option<usize> {
        let states = [&self.own, &self.of_other_state].into_iter();
        let count = states.map(|one| one.count(namespace, selector)).sum();
        (count > 0 || !self.is_partial).then_some(count)
    }

    /// Returns the numbers that templates which a selector matches have for a named port.
    pub(super) fn numbers(
        &self,
        (namespace, selector): (&str, &Labels),
        port: (&str, &str),
    ) -> NamedPortNumbers {
        let known = self.own.numbers((namespace, selector), port);
        if !known.is_empty() {
            return NamedPortNumbers::Known(known);
        }
        let of_other_state = self.of_other_state.numbers((namespace, selector), port);
        if !of_other_state.is_empty() {
            return NamedPortNumbers::OfOtherState(of_other_state);
        }
        match self.count(namespace, selector) {
            None => NamedPortNumbers::MayBeInUnusableFile,
            Some(0) => NamedPortNumbers::NoTemplate,
            Some(_) => NamedPortNumbers::NotInTemplates,
        }
    }
}

impl PodTemplates {
    fn of<'o>(objects: impl Iterator<Item = &'o RawObject>) -> Self {
        let templates = objects.filter_map(PodTemplate::of).collect();
        Self { templates }
    }

    fn count(&self, namespace: &str, selector: &Labels) -> usize {
        self.matching(namespace, selector).count()
    }

    fn matching<'t>(
        &'t self,
        namespace: &'t str,
        selector: &'t Labels,
    ) -> impl Iterator<Item = &'t PodTemplate> {
        self.templates.iter().filter(move |template| {
            let has = |(key, value)| template.labels.get(key) == Some(value);
            template.namespace == namespace && selector.iter().all(has)
        })
    }

    fn numbers(
        &self,
        (namespace, selector): (&str, &Labels),
        (name, protocol): (&str, &str),
    ) -> BTreeSet<u16> {
        let number = |template: &PodTemplate| {
            let mut ports = template.ports.iter();
            let found = ports.find(|port| (&*port.0, &*port.1) == (name, protocol))?;
            Some(found.2)
        };
        let templates = self.matching(namespace, selector);
        templates.filter_map(number).collect()
    }
}

impl PodTemplate {
    /// Reads the Pod or the template of an object; `None` if it has none.
    fn of(object: &RawObject) -> Option<Self> {
        /// Pod templates of Deployments and similar objects, and of CronJobs.
        const PLACES: [&str; 2] = ["/spec/template", "/spec/jobTemplate/spec/template"];

        let value = &object.value;
        let pod = if object.kind == RawKind::Pod {
            value
        } else {
            PLACES.into_iter().find_map(|place| value.pointer(place))?
        };
        let containers = |place: &str| {
            let containers = pod.pointer(place).and_then(Value::as_array);
            containers.into_iter().flatten()
        };
        let is_sidecar = |one: &&Value| one.get("restartPolicy") == Some(&"Always".into());
        let sidecars = containers("/spec/initContainers").filter(is_sidecar);
        let ports = containers("/spec/containers").chain(sidecars);
        let ports = ports.filter_map(|container| container.get("ports")?.as_array());
        Some(Self {
            namespace: object.namespace.clone(),
            labels: labels(pod.pointer("/metadata/labels")),
            ports: ports.flatten().filter_map(named_port).collect(),
        })
    }
}

fn named_port(port: &Value) -> Option<(String, String, u16)> {
    let text = |field| port.get(field).and_then(Value::as_str);
    let number = port.get("containerPort")?.as_u64()?;
    let protocol = text("protocol").unwrap_or("TCP").to_owned();
    Some((text("name")?.to_owned(), protocol, number.try_into().ok()?))
}

/// Reads labels; empty if there are none.
pub(super) fn labels(value: Option<&Value>) -> Labels {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    let entries = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
    entries.collect()
}

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

/// Objects of one state, and its Pod templates.
type StateObjects<'a> = (&'a BTreeMap<RawKey, RawObject>, &'a StateTemplates);

/// Returns the Services of both states whose selectors match templates in one of them only, as far
/// as these are known. Sorted by name.
pub(super) fn template_matches(
    (objects_before, templates_before): StateObjects<'_>,
    (objects_after, templates_after): StateObjects<'_>,
) -> Vec<TemplateMatches> {
    let services = objects_before.iter().filter_map(|(key, before)| {
        let is_service = before.kind == RawKind::Ingested(Kind::Service);
        Some((before, objects_after.get(key)?)).filter(|_| is_service)
    });
    let matches = services.filter_map(|(before, after)| {
        let (selector_before, selector_after) = (selector(before)?, selector(after)?);
        let matches = TemplateMatches {
            namespace: after.namespace.clone(),
            service: after.name.clone(),
            before: templates_before.count(&before.namespace, &selector_before)?,
            after: templates_after.count(&after.namespace, &selector_after)?,
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
