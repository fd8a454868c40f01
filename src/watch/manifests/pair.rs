//! Reads two states of the same manifests, for a comparison.
//!
//! A value that neither manifest sets is the same before and after. Otherwise every Service would
//! appear changed. A Service of which a state lacks a part because of errors must not appear to be
//! removed: its author meant it to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::endpoints::{OtherStateObjects, assume_endpoints, slices_by_service};
use super::files::ManifestErrorScope;
use super::fill_in::OtherState;
use super::incomplete::{IncompleteServices, invalid_services, service_names, slice_services};
use super::load::{LoadedFile, LoadedManifests, ManifestErrors, raw_objects, read};
use super::merge::{Manifests, merge_files};
use super::pod_templates::{StateTemplates, TemplateMatches, template_matches};
use super::raw::{RawKey, RawObject};
use super::{ManifestOptions, Validation};
use crate::ingest::ObjectName;

/// Two states of the same objects.
#[derive(Debug)]
pub(crate) struct ManifestPair {
    /// State before the change.
    pub before: Manifests,
    /// State after the change.
    pub after: Manifests,
    /// All objects of the state before and of that after, as written, sorted by API version, kind,
    /// namespace and name.
    pub objects: [Vec<RawObject>; 2],
    /// Services that have Pods in one state only, by the templates of the manifests. Sorted.
    pub template_matches: Vec<TemplateMatches>,
    /// Services of which a state lacks the object or an EndpointSlice, because of errors.
    pub incomplete_services: IncompleteServices,
}

/// Reads the manifests at two paths. Addresses and node ports that are not set are the same in both
/// states, and each selector without EndpointSlices gets two endpoints. The errors of files and
/// objects that are not used are in the results.
///
/// # Errors
///
/// A path does not exist or cannot be listed, no file of it can be used, or standard input has no
/// objects.
pub(crate) fn load_pair(
    [path_before, path_after]: [&Path; 2],
    options: &ManifestOptions,
    validation: Validation,
) -> Result<ManifestPair, ManifestErrors> {
    let files_before = read(path_before, validation)?;
    let files_after = read(path_after, validation)?;
    let state_before = (&files_before, path_before);
    let state_after = (&files_after, path_after);
    let incomplete_services = incomplete_services(state_before, state_after);
    let raw_before = files_before.raw_objects();
    let raw_after = files_after.raw_objects();
    let templates_before = known_templates(state_before, &raw_before, state_after);
    let templates_after = known_templates(state_after, &raw_after, state_before);
    let node = &options.node_name;
    let merged_before = merge_files(files_before.contents(), node);
    let merged_after = merge_files(files_after.contents(), node);
    let mut before = merged_before.fill_in(options, OtherState::After(&merged_after.services));
    let mut after = merged_after.fill_in(options, OtherState::Before(&before.services));
    let slices_before = slices_by_service(&before);
    let slices_after = slices_by_service(&after);
    let objects_before = OtherStateObjects {
        raw: &raw_before,
        slices: &slices_before,
    };
    let objects_after = OtherStateObjects {
        raw: &raw_after,
        slices: &slices_after,
    };
    let own_before = (&raw_before, &templates_before);
    let own_after = (&raw_after, &templates_after);
    assume_endpoints(&mut before, own_before, &objects_after, node);
    assume_endpoints(&mut after, own_after, &objects_before, node);
    Ok(ManifestPair {
        template_matches: template_matches(own_before, own_after),
        incomplete_services,
        before: files_before.add_notes_and_errors(before),
        after: files_after.add_notes_and_errors(after),
        objects: [raw_before, raw_after].map(|raw| raw.into_values().collect()),
    })
}

/// Files of one state, and their path.
type LoadedState<'a> = (&'a LoadedManifests, &'a Path);

/// Returns the Services of which a state lacks the object or an EndpointSlice, because of errors.
fn incomplete_services(before: LoadedState<'_>, after: LoadedState<'_>) -> IncompleteServices {
    let states = [before, after].into_iter();
    let files = states.flat_map(|(state, _)| &state.files);
    let invalid = files.flat_map(|file| invalid_services(&file.content));
    let lost = [(before, after), (after, before)].into_iter();
    let lost = lost.flat_map(|(state, other)| services_of_unusable_files(state, other));
    IncompleteServices::of_names(invalid.chain(lost).collect())
}

/// Returns the Services of the files that are unusable in `state`, as `other` has them.
fn services_of_unusable_files(state: LoadedState<'_>, other: LoadedState<'_>) -> Vec<ObjectName> {
    let files = files_unusable_in(state, other).map(|file| &file.content);
    let names = |content| service_names(content).chain(slice_services(content));
    files.flat_map(names).collect()
}

/// Returns the Pod templates that are known of a state. A file that is unusable in it probably has
/// the templates that it has in the other state.
fn known_templates(
    state: LoadedState<'_>,
    raw: &BTreeMap<RawKey, RawObject>,
    other: LoadedState<'_>,
) -> StateTemplates {
    let mut unusable = state.0.unusable.iter();
    StateTemplates::new(
        raw,
        &raw_objects(files_unusable_in(state, other)),
        unusable.any(|text| text.may_have_pod_templates),
    )
}

/// Returns the files of `other` that are unusable in `state`, or below a directory that is. Two
/// files are the same one if they have the same path, relative to the path of their state.
fn files_unusable_in<'a>(
    (state, path): LoadedState<'a>,
    (other, other_path): LoadedState<'a>,
) -> impl Iterator<Item = &'a LoadedFile> {
    let errors = state.errors.iter();
    let of_files = errors.filter(|error| error.scope == ManifestErrorScope::File);
    let unusable = of_files.filter_map(|error| error.file.strip_prefix(path).ok());
    let unusable: BTreeSet<&Path> = unusable.collect();
    other.files.iter().filter(move |file| {
        let below = file.path.strip_prefix(other_path);
        below.is_ok_and(|below| unusable.iter().any(|path| below.starts_with(path)))
    })
}
