//! Reads two states of the same manifests, for a comparison.
//!
//! A value that neither manifest sets is the same before and after. Otherwise every Service would
//! appear changed. A Service of which a state lacks a part because of errors must not appear to be
//! removed: its author meant it to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::document::NamespacedName;
use super::endpoints::{OtherStateObjects, assume_endpoints, slices_by_service};
use super::files::ManifestErrorScope;
use super::fill_in::OtherState;
use super::incomplete::{IncompleteServices, invalid_services, service_names, slice_services};
use super::load::{LoadedFile, LoadedManifests, ManifestErrors, raw_objects, read};
use super::merge::{Manifests, merge_files};
use super::pod_templates::StateTemplates;
use super::raw::{RawKey, RawObject};
use super::template_matches::{TemplateMatches, template_matches};
use super::{ManifestOptions, Validation};

/// Two states of the same objects.
#[derive(Debug)]
pub(crate) struct ManifestPair {
    /// Earlier state.
    pub before: Manifests,
    /// Later state.
    pub after: Manifests,
    /// All objects of both states, as written, sorted by kind and name.
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
/// A path does not exist, or no file of it can be used.
pub(crate) fn load_pair(
    [earlier_path, later_path]: [&Path; 2],
    options: &ManifestOptions,
    validation: Validation,
) -> Result<ManifestPair, ManifestErrors> {
    let files = [
        read(earlier_path, options.checks(validation))?,
        read(later_path, options.checks(validation))?,
    ];
    let [loaded_before, loaded_after] = &files;
    let (earlier, later) = ((loaded_before, earlier_path), (loaded_after, later_path));
    let raw = files.each_ref().map(LoadedManifests::raw_objects);
    let templates = [
        known_templates(earlier, &raw[0], later),
        known_templates(later, &raw[1], earlier),
    ];
    let incomplete_services = incomplete_services(earlier, later);
    let [before, after] = files
        .each_ref()
        .map(|files| merge_files(files.contents(), &options.node_name));
    let before = before.fill_in(options, OtherState::After(&after.services));
    let after = after.fill_in(options, OtherState::Before(&before.services));
    let slices = [slices_by_service(&before), slices_by_service(&after)];
    let (mut before, mut after) = (before, after);
    let [of_before, of_after] = slices;
    let [raw_before, raw_after] = &raw;
    let other = |raw, slices| OtherStateObjects { raw, slices };
    let node = &options.node_name;
    let [old_templates, new_templates] = &templates;
    let (earlier, later) = ((raw_before, old_templates), (raw_after, new_templates));
    assume_endpoints(&mut before, earlier, &other(raw_after, &of_after), node);
    assume_endpoints(&mut after, later, &other(raw_before, &of_before), node);
    let [files_before, files_after] = files;
    Ok(ManifestPair {
        template_matches: template_matches([raw_before, raw_after], [old_templates, new_templates]),
        incomplete_services,
        before: files_before.add_notes_and_errors(before),
        after: files_after.add_notes_and_errors(after),
        objects: raw.map(|raw| raw.into_values().collect()),
    })
}

/// Files of one state, and their path.
type LoadedState<'a> = (&'a LoadedManifests, &'a Path);

/// Returns the Services of which a state lacks the object or an EndpointSlice, because of errors.
fn incomplete_services(earlier: LoadedState<'_>, later: LoadedState<'_>) -> IncompleteServices {
    let states = [earlier, later].into_iter();
    let files = states.flat_map(|(state, _)| &state.files);
    let invalid = files.flat_map(|file| invalid_services(&file.content));
    let lost = [(earlier, later), (later, earlier)].into_iter();
    let lost = lost.flat_map(|(state, other)| services_of_unusable_files(state, other));
    IncompleteServices::of_names(invalid.chain(lost).collect())
}

/// Returns the Services of those files of `other` that cannot be used in a state.
fn services_of_unusable_files(
    state: LoadedState<'_>,
    other: LoadedState<'_>,
) -> Vec<NamespacedName> {
    let files = files_unusable_in(state, other).map(|file| &file.content);
    let names = |content| service_names(content).chain(slice_services(content));
    files.flat_map(names).collect()
}

/// Returns the Pod templates that are known of a state. A file that cannot be used probably has
/// those that the other state has in it.
fn known_templates(
    state: LoadedState<'_>,
    raw: &BTreeMap<RawKey, RawObject>,
    other: LoadedState<'_>,
) -> StateTemplates {
    let mut unusable = state.0.unusable.iter();
    StateTemplates::new(
        raw,
        &raw_objects(files_unusable_in(state, other)),
        unusable.any(|text| text.may_have_templates),
    )
}

/// Returns the files of `other` that cannot be used in a state. A file is the same if its path
/// below that of its state is.
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
        below.is_ok_and(|below| unusable.contains(below))
    })
}
