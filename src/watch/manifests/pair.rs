//! Reads two states of the same manifests, for a comparison.
//!
//! A value that neither manifest sets is the same before and after. Otherwise every Service would
//! appear changed. A Service of which a state lacks a part because of errors must not appear to be
//! removed: its author meant it to be there.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::NamespacedName;
use super::endpoints::{OtherStateObjects, assume_endpoints, slices_by_service};
use super::files::ManifestErrorScope;
use super::fill_in::OtherState;
use super::incomplete::{IncompleteServices, invalid_services, service_names, slice_services};
use super::load::{LoadedFile, LoadedManifests, ManifestErrors, read};
use super::merge::{Manifests, merge_files};
use super::raw::RawObject;
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
    let raw = files.each_ref().map(LoadedManifests::raw_objects);
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
    assume_endpoints(&mut before, raw_before, &other(raw_after, &of_after), node);
    assume_endpoints(&mut after, raw_after, &other(raw_before, &of_before), node);
    let [files_before, files_after] = files;
    Ok(ManifestPair {
        template_matches: template_matches(raw_before, raw_after),
        incomplete_services: incomplete_services(
            (&files_before, earlier_path),
            (&files_after, later_path),
        ),
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

/// Returns the Services of those files of `other` that cannot be used in a state. A file is the
/// same if its path below that of its state is.
fn services_of_unusable_files(
    (state, path): LoadedState<'_>,
    (other, other_path): LoadedState<'_>,
) -> Vec<NamespacedName> {
    let errors = state.errors.iter();
    let of_files = errors.filter(|error| error.scope == ManifestErrorScope::File);
    let unusable = of_files.filter_map(|error| error.file.strip_prefix(path).ok());
    let unusable: BTreeSet<&Path> = unusable.collect();
    let is_unusable = |file: &&LoadedFile| {
        let below = file.path.strip_prefix(other_path);
        below.is_ok_and(|below| unusable.contains(below))
    };
    let files = other.files.iter().filter(is_unusable);
    let names = |content| service_names(content).chain(slice_services(content));
    files.map(|file| &file.content).flat_map(names).collect()
}
