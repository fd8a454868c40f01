//! Compares fields of objects, for the changes that no rule shows.
//!
//! Rules are the result of the proxy. The selector of a Service, the class of its load balancer and
//! other fields decide which endpoints and which traffic there is; a review has to show them too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::field_role::{ANNOTATIONS, FieldRole, ObjectKind, is_default, is_of_traffic};
use super::immutable::is_rejected;
use super::review::{PortChange, Review, Summary};
use super::selection::PortSelection;
use super::selector::SelectorChange;

/// Object of one side, with all of its fields.
#[derive(Debug, Clone, Copy)]
pub struct ObjectFields<'a> {
    /// Kind.
    pub kind: ObjectKind,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Object as JSON.
    pub value: &'a Value,
}

/// Difference of one field. An object that only one side has differs in its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldChange {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Name of the Service that the object is or belongs to.
    pub service: String,
    /// Path of the field, such as `spec.ports[http].targetPort`.
    pub field: String,
    /// Value on the live side; `None` if it is absent.
    pub before: Option<String>,
    /// Value on the desired side; `None` if it is absent.
    pub after: Option<String>,
    /// Effect of the field.
    pub role: FieldRole,
}

/// Changes of fields that no rule shows, and values that were assumed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldReview {
    /// Sorted by object and field.
    pub changes: Vec<FieldChange>,
    /// Services that gain or lose all of their Pods. Sorted.
    pub selectors: Vec<SelectorChange>,
    /// Number of changes of Services that the query does not select.
    pub not_selected: usize,
    /// One line for each kind of value that the manifests lack.
    pub assumptions: Vec<String>,
}

impl FieldReview {
    /// Compares the objects of both sides. A field that rules depend on is listed only if the rules
    /// of its Service do not differ.
    pub fn of(
        before: &[ObjectFields<'_>],
        after: &[ObjectFields<'_>],
        reviews: &[Review<'_>],
    ) -> Self {
        let ports = reviews.iter().flat_map(|review| &review.ports);
        let differ = ports.filter(|port| port.change != PortChange::Cosmetic);
        let not_selected = reviews.iter().flat_map(|one| &one.not_selected.ports);
        let names = differ.map(|port| &port.name).chain(not_selected);
        let shown: BTreeSet<(&str, &str)> = names
            .map(|name| (name.namespace(), name.service()))
            .collect();
        let is_listed = |change: &FieldChange| match change.role {
            FieldRole::Rules => !shown.contains(&(&change.namespace, &change.service)),
            FieldRole::OtherPrograms | FieldRole::Unknown | FieldRole::Rejected => true,
            FieldRole::NoEffect => false,
        };
        let (before, after) = (by_name(before), by_name(after));
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changes = names.into_iter().flat_map(|name| {
            let sides = (before.get(name).copied(), after.get(name).copied());
            changes_of(sides.0, sides.1)
        });
        Self {
            changes: changes.filter(is_listed).collect(),
            ..Self::default()
        }
    }

    /// Restricts the changes to the selected Services.
    #[must_use]
    pub fn only(mut self, selection: &PortSelection) -> Self {
        let before = self.changes.len() + self.selectors.len();
        self.changes
            .retain(|change| selection.has_service(&change.namespace, &change.service));
        self.selectors
            .retain(|change| selection.has_service(&change.namespace, &change.service));
        self.not_selected = before - self.changes.len() - self.selectors.len();
        self
    }

    /// Reports whether a change has an effect, or cannot be made.
    pub fn matters(&self) -> bool {
        let mut changes = self.changes.iter();
        let has_effect = changes.any(|change| change.role != FieldRole::Rules);
        has_effect || !self.selectors.is_empty()
    }

    /// Returns the changes that an API server rejects.
    pub fn rejected(&self) -> impl Iterator<Item = &FieldChange> {
        self.of_role(FieldRole::Rejected)
    }

    /// Returns the changes that other programs depend on.
    pub fn with_effect(&self) -> impl Iterator<Item = &FieldChange> {
        self.of_role(FieldRole::OtherPrograms)
    }

    /// Returns the changes of fields that no API is known to have.
    pub fn unknown(&self) -> impl Iterator<Item = &FieldChange> {
        self.of_role(FieldRole::Unknown)
    }

    /// Returns the changes of fields that rules depend on, but not those of this object.
    pub fn without_effect(&self) -> impl Iterator<Item = &FieldChange> {
        self.of_role(FieldRole::Rules)
    }

    fn of_role(&self, role: FieldRole) -> impl Iterator<Item = &FieldChange> {
        self.changes
            .iter()
            .filter(move |change| change.role == role)
    }
}

impl Summary {
    /// Counts the fields that differ.
    #[must_use]
    pub(crate) fn with_fields(self, fields: &FieldReview) -> Self {
        Self {
            fields: fields.with_effect().count(),
            unknown_fields: fields.unknown().count(),
            fields_without_effect: fields.without_effect().count(),
            rejected_fields: fields.rejected().count(),
            selectors: fields.selectors.len(),
            unselected_fields: fields.not_selected,
            ..self
        }
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            field,
            ..
        } = self;
        let kind = self.kind.as_str();
        write!(f, "{kind} {namespace}/{name}: ")?;
        match (field.as_str(), &self.before, &self.after) {
            (OBJECT_NAME, None, _) => return f.write_str("added object"),
            (OBJECT_NAME, _, None) => return f.write_str("removed object"),
            _ => {}
        }
        let value = |side: &Option<String>| side.clone().unwrap_or_else(|| "none".to_owned());
        let (before, after) = (value(&self.before), value(&self.after));
        write!(f, "{field} {before} -> {after}")
    }
}

/// Field in which an object differs that only one side has.
const OBJECT_NAME: &str = "metadata.name";

type ComparedName<'a> = (ObjectKind, &'a str, &'a str);

fn by_name<'a>(objects: &[ObjectFields<'a>]) -> BTreeMap<ComparedName<'a>, ObjectFields<'a>> {
    let objects = objects.iter();
    let named = objects.map(|one| ((one.kind, one.namespace, one.name), *one));
    named.collect()
}

fn changes_of(
    before: Option<ObjectFields<'_>>,
    after: Option<ObjectFields<'_>>,
) -> Vec<FieldChange> {
    let Some(object) = after.or(before) else {
        return Vec::new();
    };
    let change = |field: &str, role, [before, after]: [Option<String>; 2]| FieldChange {
        kind: object.kind,
        namespace: object.namespace.to_owned(),
        name: object.name.to_owned(),
        service: service_of(object),
        field: field.to_owned(),
        before,
        after,
        role,
    };
    let (Some(old), Some(new)) = (before, after) else {
        let name = |side: Option<ObjectFields<'_>>| side.map(|one| one.name.to_owned());
        let names = [name(before), name(after)];
        return vec![change(OBJECT_NAME, FieldRole::Rules, names)];
    };
    let values = (old.value, new.value);
    let (old, new) = (leaves(old), leaves(new));
    let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for field in fields {
        let (before, after) = (old.get(field), new.get(field));
        if before == after {
            continue;
        }
        let Some(leaf) = after.or(before) else {
            continue;
        };
        let role = if is_rejected(object.kind, &leaf.path, values.0, values.1) {
            FieldRole::Rejected
        } else {
            FieldRole::of(object.kind, &leaf.path)
        };
        let text = |leaf: Option<&Leaf>| leaf.map(|leaf| leaf.text.clone());
        changes.push(change(field, role, [text(before), text(after)]));
    }
    changes
}

/// Returns the Service that an object is or belongs to.
fn service_of(object: ObjectFields<'_>) -> String {
    const LABEL: &str = "/metadata/labels/kubernetes.io~1service-name";

    let label = object.value.pointer(LABEL).and_then(Value::as_str);
    match object.kind {
        ObjectKind::Service => object.name.to_owned(),
        ObjectKind::EndpointSlice => label.unwrap_or_default().to_owned(),
    }
}

/// Value of a field, with the path by which the field is listed.
#[derive(Debug, PartialEq, Eq)]
struct Leaf {
    path: String,
    text: String,
}

/// Returns the fields that are set to something else than their default, by their full path.
fn leaves(object: ObjectFields<'_>) -> BTreeMap<String, Leaf> {
    let parts: &[&str] = match object.kind {
        ObjectKind::Service => &["spec", "status"],
        ObjectKind::EndpointSlice => &["addressType", "endpoints", "ports"],
    };
    let mut leaves = BTreeMap::new();
    for part in parts {
        if let Some(value) = object.value.get(part) {
            let at = LeafPath {
                kind: object.kind,
                full: (*part).to_owned(),
                listed: (*part).to_owned(),
            };
            at.add(value, &mut leaves);
        }
    }
    let annotations = object.value.pointer("/metadata/annotations");
    if let (ObjectKind::Service, Some(Value::Object(annotations))) = (object.kind, annotations) {
        for (key, value) in annotations.iter().filter(|(key, _)| is_of_traffic(key)) {
            let leaf = Leaf {
                path: ANNOTATIONS.to_owned(),
                text: text(value),
            };
            leaves.insert(format!("{ANNOTATIONS}[{key}]"), leaf);
        }
    }
    leaves
}

/// Path of a field in an object, and in the list of fields.
#[derive(Clone)]
struct LeafPath {
    kind: ObjectKind,
    /// With the name of each item, as in `spec.ports[http].port`.
    full: String,
    /// Without the names, as in `spec.ports[].port`.
    listed: String,
}

impl LeafPath {
    fn add(&self, value: &Value, to: &mut BTreeMap<String, Leaf>) {
        match value {
            Value::Object(fields) if self.is_map() => {
                for (key, value) in fields {
                    let full = format!("{}[{key}]", self.full);
                    Self {
                        full,
                        ..self.clone()
                    }
                    .add(value, to);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    if !self.is_default_target(key, value, fields.get("port")) {
                        self.field(key).add(value, to);
                    }
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let mut names = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    let mut name = item_name(item, index);
                    if !names.insert(name.clone()) {
                        // Ports of one name are not valid, but must not hide each other.
                        name = format!("{name} {index}");
                    }
                    let full = format!("{}[{name}]", self.full);
                    let listed = format!("{}[]", self.listed);
                    Self {
                        full,
                        listed,
                        ..self.clone()
                    }
                    .add(item, to);
                }
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(text).collect();
                self.add_text(items.join(","), to);
            }
            scalar => self.add_text(text(scalar), to),
        }
    }

    fn add_text(&self, text: String, to: &mut BTreeMap<String, Leaf>) {
        if is_default(self.kind, &self.listed, &text) {
            return;
        }
        let path = self.listed.clone();
        to.insert(self.full.clone(), Leaf { path, text });
    }

    fn field(&self, key: &str) -> Self {
        Self {
            kind: self.kind,
            full: format!("{}.{key}", self.full),
            listed: format!("{}.{key}", self.listed),
        }
    }

    /// Reports whether the keys of an object are names, not fields.
    fn is_map(&self) -> bool {
        matches!(
            self.listed.as_str(),
            "spec.selector" | "endpoints[].deprecatedTopology"
        )
    }

    /// Reports whether a target port is the port, which it is by default.
    fn is_default_target(&self, key: &str, value: &Value, port: Option<&Value>) -> bool {
        let is_target = key == "targetPort" && self.listed == "spec.ports[]";
        is_target && (Some(value) == port || value == &Value::from(0))
    }
}

/// Returns the name of an item, its address, or its index.
fn item_name(item: &Value, index: usize) -> String {
    const PLACES: [&str; 3] = ["/name", "/addresses/0", "/ip"];

    let texts = PLACES.into_iter().map(|place| item.pointer(place));
    let mut texts = texts.filter_map(|value| value?.as_str());
    let name = texts.find(|text| !text.is_empty());
    name.map_or_else(|| index.to_string(), str::to_owned)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
