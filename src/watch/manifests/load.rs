//! Reads manifests once, for commands that do not stay.
//!
//! Apart from [`follow`](super::follow()) because here the first mistake is the end: whoever asks
//! for a preview wants to hear of it.

use std::path::Path;

use super::ManifestOptions;
use super::error::ManifestError;
use super::files::find;
use super::merge::{Manifests, merge};
use super::parse::{Broken, parse};
use crate::watch::bounded;

/// The path that stands for standard input.
pub(super) const STDIN: &str = "-";

/// Reads the manifests at `path` once.
///
/// # Errors
///
/// The first file or directory that cannot be read or understood; nothing is used then.
pub fn load(path: &Path, options: &ManifestOptions) -> Result<Manifests, ManifestError> {
    let read_one = |path: &Path, text: std::io::Result<Vec<u8>>| {
        let text = text.map_err(|error| ManifestError::new(path, &error))?;
        parse(&text).map_err(|broken| ManifestError::broken(path, broken))
    };
    let mut contents = Vec::new();
    if path == Path::new(STDIN) {
        let read = bounded::read_all(std::io::stdin().lock(), bounded::LARGEST_MANIFEST);
        let content = read_one(path, read)?;
        if content.is_empty() {
            let reason = "holds no object".to_owned();
            return Err(ManifestError::broken(path, Broken { line: None, reason }));
        }
        contents.push((path.to_owned(), content));
    } else {
        for file in find(path)?.files {
            let content = read_one(&file, bounded::read(&file, bounded::LARGEST_MANIFEST))?;
            contents.push((file, content));
        }
    }
    let files = contents.iter();
    let mut manifests = merge(
        files.map(|(file, content)| (file.as_path(), content)),
        options,
    );
    if manifests.services.is_empty() {
        let ignored = manifests.ignored;
        manifests.notes.push(format!(
            "no Service here, and {ignored} objects of other kinds"
        ));
    }
    Ok(manifests)
}
