//! Reads two states of manifests that are compared, and completes both alike.
//!
//! A value that a manifest lacks must be the same on both sides, or every Service would differ by
//! what was derived: each side takes it from the other one if that has it.

use std::path::Path;

use super::complete::OtherState;
use super::endpoints::{OtherSide, assume_endpoints, slices_by_service};
use super::load::{self, LoadedManifests, ManifestErrors};
use super::merge::{Manifests, merge_files};
use super::raw::RawObject;
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
}

/// Reads the manifests at two paths. Services of both sides have the same addresses and node ports
/// where these are not set, and two endpoints for each selector without EndpointSlices. The errors
/// of files and objects that are left out are in the results.
///
/// # Errors
///
/// A path does not exist, or no file of it can be used.
pub(crate) fn load_pair(
    before: &Path,
    after: &Path,
    options: &ManifestOptions,
    validation: Validation,
) -> Result<ManifestPair, ManifestErrors> {
    let files = [
        load::read(before, validation)?,
        load::read(after, validation)?,
    ];
    let raw = files.each_ref().map(LoadedManifests::raw_objects);
    let [before, after] = files
        .each_ref()
        .map(|files| merge_files(files.contents(), &options.node_name));
    let before = before.complete(options, OtherState::After(&after.services));
    let after = after.complete(options, OtherState::Before(&before.services));
    let slices = [slices_by_service(&before), slices_by_service(&after)];
    let (mut before, mut after) = (before, after);
    let [of_before, of_after] = slices;
    let [raw_before, raw_after] = &raw;
    let other = |raw, slices| OtherSide { raw, slices };
    let node = &options.node_name;
    assume_endpoints(&mut before, raw_before, &other(raw_after, &of_after), node);
    assume_endpoints(&mut after, raw_after, &other(raw_before, &of_before), node);
    let [files_before, files_after] = files;
    Ok(ManifestPair {
        before: files_before.annotate(before),
        after: files_after.annotate(after),
        objects: raw.map(|raw| raw.into_values().collect()),
    })
}
