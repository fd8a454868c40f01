//! Reads manifests once, for commands, and standard input for the daemon, and finds the lines of
//! their errors.
//!
//! An unusable file or, with `Strict`, an invalid object is an error, and all others are used. With
//! `Lenient`, undecodable objects are not used, and are notes.
//!
//! For `diff`, assumes two endpoints for each selector, one of them on this node. A controller
//! creates EndpointSlices in a cluster, and manifests seldom have them. Without endpoints, a
//! Service has only a rule that rejects, and most changes of it would not show.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::files::{ManifestError, ManifestErrorScope, STDIN, find};
use super::fill_in::{AssumedValueKind, Assumption, Slots, hash};
use super::merge::{ManifestOptions, Manifests, merge};
use super::parse::{FaultyObject, FileContent, ParseOptions, WrittenObjects, lines, parse};
use super::validation::{FieldProblem, RENDER_FIRST, Validation, is_helm_template};
use crate::ingest::{
    EndpointObject, EndpointSliceObject, MapEntry, Metadata, ObjectName, SERVICE_NAME_LABEL,
    ServiceObject, SlicePortObject, yaml,
};
use crate::model::Kind;
use crate::net::{IpFamily, IpNet, PerFamily};
use crate::text::on_lines;
use crate::watch::bounded;

/// Errors of manifests that could not be used at all. At least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", on_lines(_0))]
pub(crate) struct ManifestErrors(pub Vec<ManifestError>);

impl From<ManifestError> for ManifestErrors {
    fn from(error: ManifestError) -> Self {
        Self(vec![error])
    }
}

/// Reads the manifests at `path` once. The errors of files and objects that are not used are in the
/// result, unless nothing at all can be used.
pub(crate) fn load(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<Manifests, ManifestErrors> {
    let mut loaded = LoadedManifests::read(path, validation, false)?;
    if validation == Validation::Strict {
        loaded.report_faulty();
    }
    Ok(loaded.merged(options))
}

/// Reads the manifests at `path` once, for a comparison: a missing object would be a difference, so
/// every file and object that cannot be used is an error.
pub(crate) fn load_complete(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<Manifests, ManifestErrors> {
    LoadedManifests::read(path, validation, false)?.complete(options)
}

/// Reads manifests that are compared with others, and returns the objects as written as well.
/// Assumes two endpoints for each selector without EndpointSlices.
pub(crate) fn load_compared(
    path: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<(Manifests, WrittenObjects), ManifestErrors> {
    let mut loaded = LoadedManifests::read(path, validation, true)?;
    let files = loaded.files.iter_mut();
    let written = files.flat_map(|file| take(&mut file.content.written));
    let written = written.collect();
    let mut manifests = loaded.complete(options)?;
    assume_endpoints(&mut manifests, &written, &options.node_name);
    Ok((manifests, written))
}

struct LoadedManifests {
    validation: Validation,
    files: Vec<LoadedFile>,
    errors: Vec<ManifestError>,
}

/// File with valid syntax.
struct LoadedFile {
    path: PathBuf,
    /// Text of the file, to find the lines of errors.
    text: Vec<u8>,
    content: FileContent,
}

impl LoadedManifests {
    fn read(
        path: &Path,
        validation: Validation,
        keeps_written: bool,
    ) -> Result<Self, ManifestErrors> {
        let options = ParseOptions {
            validation,
            keeps_written,
        };
        let mut loaded = Self {
            validation,
            files: Vec::new(),
            errors: Vec::new(),
        };
        if path == Path::new(STDIN) {
            let stdin = io::stdin().lock();
            let text = bounded::read_all(stdin, bounded::MAX_MANIFEST_BYTES);
            loaded.add(path, text, options);
            if loaded.files.iter().any(|file| file.content.is_empty()) {
                return Err(ManifestError::new(path, &"contains no objects").into());
            }
        } else {
            let found = find(path)?;
            loaded.errors = found.unusable;
            for file in found.files {
                let text = if file == path {
                    // May be a pipe, as in `--manifests <(...)`.
                    bounded::read(&file, bounded::MAX_MANIFEST_BYTES)
                } else {
                    bounded::read_regular_file(&file, bounded::MAX_MANIFEST_BYTES)
                };
                loaded.add(&file, text, options);
            }
        }
        if loaded.files.is_empty() && !loaded.errors.is_empty() {
            return Err(ManifestErrors(loaded.errors));
        }
        Ok(loaded)
    }

    fn add(&mut self, path: &Path, text: io::Result<Vec<u8>>, options: ParseOptions) {
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.errors.push(ManifestError::new(path, &error));
                return;
            }
        };
        match parse(path, &text, options) {
            Ok(content) => self.files.push(LoadedFile {
                path: path.to_owned(),
                text,
                content,
            }),
            Err(error) => self.errors.push(error),
        }
    }

    /// Adds an error for each problem of each object that is not used, which is a note otherwise.
    fn report_faulty(&mut self) {
        for file in &mut self.files {
            let faulty = file.content.faulty.extract_if(.., |object| !object.is_used);
            let faulty: Vec<FaultyObject> = faulty.collect();
            let problems = faulty
                .iter()
                .flat_map(|object| object.problems.iter().map(move |problem| (object, problem)));
            let places: Vec<_> = problems
                .clone()
                .map(|(object, problem)| match problem.path.as_str() {
                    // Of the object, which begins with its kind.
                    "" => object.place.within("kind"),
                    path => object.place.within(path),
                })
                .collect();
            let text = yaml::decode(&file.text).unwrap_or_default();
            let lines = lines(&text, file.content.format, &places);
            let errors = problems.zip(lines).map(|((object, problem), line)| {
                let FaultyObject { kind, name, .. } = object;
                let problem_text = problem_text(problem);
                ManifestError {
                    file: file.path.clone(),
                    line,
                    reason: format!("{kind} `{name}`: {problem_text}"),
                    scope: ManifestErrorScope::Object,
                }
            });
            self.errors.extend(errors);
        }
    }

    /// Returns the merged manifests, with the notes and errors of the files.
    fn merged(mut self, options: &ManifestOptions) -> Manifests {
        let files = self.files.iter();
        let contents = files.map(|file| (file.path.as_path(), &file.content));
        let mut manifests = merge(contents, options, self.validation, None);
        self.errors.append(&mut manifests.errors);
        manifests.errors = self.errors;
        if manifests.services.is_empty() && manifests.errors.is_empty() {
            manifests.notes.push(manifests.without_services());
        }
        manifests
    }

    /// Returns the merged manifests, if every file and object can be used.
    fn complete(mut self, options: &ManifestOptions) -> Result<Manifests, ManifestErrors> {
        self.report_faulty();
        let manifests = self.merged(options);
        if manifests.errors.is_empty() {
            Ok(manifests)
        } else {
            Err(ManifestErrors(manifests.errors))
        }
    }
}

/// Returns the text of a problem. Of a value that is a Helm template, it says that and nothing
/// else.
fn problem_text(problem: &FieldProblem) -> String {
    let FieldProblem { path, text, .. } = problem;
    if is_helm_template(text) {
        format!("{path}: is a Helm template: {RENDER_FIRST}")
    } else {
        text.clone()
    }
}

type Labels = BTreeMap<String, String>;

/// Adds EndpointSlices of two assumed endpoints for each Service that has a selector and no slices.
fn assume_endpoints(manifests: &mut Manifests, written: &WrittenObjects, node_name: &str) {
    let known = manifests.endpoint_slices.iter().map(|slice| {
        let name = slice.metadata.label(SERVICE_NAME_LABEL).unwrap_or_default();
        ObjectName {
            namespace: slice.metadata.namespace.clone(),
            name: name.into_owned(),
        }
    });
    let known: BTreeSet<ObjectName> = known.collect();
    let mut slices = Vec::new();
    for service in &manifests.services {
        let name = service.metadata.object_name();
        if known.contains(&name) || service.spec.type_ == "ExternalName" {
            continue;
        }
        let Some(written) = written.get(&(Kind::Service, name)) else {
            continue;
        };
        let selector = labels(written.pointer("/spec/selector"));
        if selector.is_empty() {
            continue;
        }
        let mut builder = SliceBuilder {
            service,
            selector,
            node_name,
            assumptions: &mut manifests.assumptions,
        };
        slices.extend(builder.slices(written));
    }
    manifests.endpoint_slices.extend(slices);
    let key = |slice: &Arc<EndpointSliceObject>| {
        let metadata = &slice.metadata;
        (metadata.namespace.clone(), metadata.name.clone())
    };
    manifests.endpoint_slices.sort_by_cached_key(key);
}

/// Builder of the EndpointSlices that are assumed for one Service.
struct SliceBuilder<'a> {
    service: &'a ServiceObject,
    selector: Labels,
    node_name: &'a str,
    assumptions: &'a mut Vec<Assumption>,
}

impl SliceBuilder<'_> {
    /// Returns an EndpointSlice for each IP family.
    fn slices(&mut self, written: &Value) -> Vec<Arc<EndpointSliceObject>> {
        let targets = written.pointer("/spec/ports").and_then(Value::as_array);
        let targets = targets.into_iter().flatten();
        let targets = targets.map(|port| port.get("targetPort"));
        let mut ports = Vec::new();
        for (port, target) in self.service.spec.ports.iter().zip(targets) {
            // Only Pods have the number of a name.
            let number = target.and_then(Value::as_i64).filter(|number| *number != 0);
            ports.push(SlicePortObject {
                name: Some(port.name.clone()),
                protocol: Some(port.protocol.clone()),
                port: Some(number.unwrap_or(port.port)),
            });
        }
        let families = self.service.spec.ip_families.clone();
        let has = |family: &IpFamily| families.iter().any(|text| text == family.as_str());
        let families = IpFamily::ALL.into_iter().filter(has);
        families
            .map(|family| Arc::new(self.slice(family, ports.clone())))
            .collect()
    }

    fn slice(&mut self, family: IpFamily, ports: Vec<SlicePortObject>) -> EndpointSliceObject {
        let Metadata {
            namespace, name, ..
        } = &self.service.metadata;
        let [here, elsewhere] = addresses(namespace, &self.selector, family);
        self.assumptions.push(Assumption {
            kind: AssumedValueKind::Endpoints,
            subject: format!("{namespace}/{name}"),
            value: format!("{here} and {elsewhere}"),
        });
        let other_node = format!("not-{}", self.node_name);
        let endpoint = |ip: IpAddr, node: &str| EndpointObject {
            addresses: vec![ip.to_string()],
            node_name: Some(node.to_owned()),
            ..EndpointObject::default()
        };
        EndpointSliceObject {
            metadata: Metadata {
                name: format!("{name}-assumed-{}", family.as_str().to_lowercase()),
                namespace: namespace.clone(),
                labels: vec![MapEntry::new(SERVICE_NAME_LABEL, name.as_str())],
                ..Metadata::default()
            },
            address_type: family.to_string(),
            endpoints: vec![
                endpoint(here, self.node_name),
                endpoint(elsewhere, &other_node),
            ],
            ports,
        }
    }
}

/// Reads labels; empty if there are none.
fn labels(value: Option<&Value>) -> Labels {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    let entries = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
    entries.collect()
}

/// Returns two addresses derived from a selector, since Services with the same selector have the
/// same Pods. Different selectors may get the same addresses, which changes no rule of either.
fn addresses(namespace: &str, selector: &Labels, family: IpFamily) -> [IpAddr; 2] {
    let mut name = namespace.to_owned();
    for (key, value) in selector {
        name = format!("{name} {key}={value}");
    }
    let slots = Slots::of(*POD_IPS.get(family));
    let first = hash(&name) % slots.count;
    [first, (first + 1) % slots.count].map(|slot| slots.address(slot))
}

/// Networks of assumed endpoints, in the upper half of the range for network benchmarks of RFC 2544
/// or RFC 5180, which no cluster uses. Load balancer IPs are in the lower half by default.
const POD_IPS: PerFamily<IpNet> = PerFamily {
    v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(198, 19, 0, 0)), 16),
    v6: IpNet::new_assert(
        IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 0)),
        64,
    ),
};
