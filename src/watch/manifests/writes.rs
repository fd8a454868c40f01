//! Tracks files that programs are writing in place, from the events of inotify.
//!
//! A program that writes a file in place first truncates it, so that most of its objects are
//! missing until the program is done. The kernel reports each modification, and that a program
//! closes the file, but not which programs have it open: those are counted here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum time after the last modification for which a file is incomplete, if it is not closed: a
/// program may keep it open for as long as it runs. Shorter than most pauses of a program that
/// writes, the file would be read while it is incomplete.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Maximum time after the first modification for which a file is incomplete: a program may modify
/// it regularly and never close it.
const MAX_WRITE: Duration = Duration::from_secs(300);

/// Files that are open, as far as events show. A file that was opened before its directory was
/// watched is unknown until it is modified.
#[derive(Debug, Default)]
pub(super) struct Writes {
    files: HashMap<PathBuf, OpenFile>,
    /// File that was renamed, with the number that the event of its new name has as well.
    renamed: Option<(u32, OpenFile)>,
}

#[derive(Debug, Default)]
struct OpenFile {
    /// Number of times that the file was opened and not closed.
    descriptors: usize,
    /// A program created the file, and has not opened it yet.
    is_new: bool,
    /// Since the file was last complete.
    modified: Option<Modifications>,
}

#[derive(Debug, Clone, Copy)]
struct Modifications {
    first: Instant,
    last: Instant,
    /// A program that may have written has closed the file; others still have it open.
    is_closed: bool,
}

impl Modifications {
    fn deadline(&self) -> Instant {
        (self.last + MAX_PAUSE).min(self.first + MAX_WRITE)
    }
}

/// Access of a descriptor that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Writes {
    /// Records that the file was created. A new name of a complete file is not opened afterwards.
    pub(super) fn created(&mut self, file: PathBuf) {
        let new = OpenFile {
            is_new: true,
            ..OpenFile::default()
        };
        self.files.insert(file, new);
    }

    pub(super) fn opened(&mut self, file: PathBuf, now: Instant) {
        let open = self.files.entry(file).or_default();
        open.descriptors += 1;
        if std::mem::take(&mut open.is_new) {
            open.modify(now);
        }
    }

    pub(super) fn modified(&mut self, file: PathBuf, now: Instant) {
        self.files.entry(file).or_default().modify(now);
    }

    /// Reports whether an incomplete file is complete now: the last descriptor was closed.
    pub(super) fn closed(&mut self, file: &Path, access: Access) -> bool {
        let Some(open) = self.files.get_mut(file) else {
            return false;
        };
        open.descriptors = open.descriptors.saturating_sub(1);
        if let (Some(modified), Access::Write) = (&mut open.modified, access) {
            modified.is_closed = true;
        }
        if open.descriptors > 0 || open.modified.is_some_and(|modified| !modified.is_closed) {
            return false;
        }
        let closed = self.files.remove(file);
        closed.is_some_and(|open| open.modified.is_some())
    }

    /// Records that the name no longer leads to the file.
    pub(super) fn removed(&mut self, file: &Path) {
        self.files.remove(file);
    }

    pub(super) fn renamed_from(&mut self, file: &Path, rename: u32) {
        self.renamed = self.files.remove(file).map(|open| (rename, open));
    }

    /// Records the new name, which no longer leads to the file that it led to before.
    pub(super) fn renamed_to(&mut self, file: PathBuf, rename: u32) {
        self.files.remove(&file);
        if let Some((_, open)) = self.renamed.take_if(|(number, _)| *number == rename) {
            self.files.insert(file, open);
        }
    }

    /// Records that events are missing: descriptors can no longer be counted.
    pub(super) fn lost_events(&mut self) {
        self.files.retain(|_, open| open.modified.is_some());
        for open in self.files.values_mut() {
            open.descriptors = 0;
        }
    }

    pub(super) fn is_incomplete(&self, file: &Path) -> bool {
        self.files
            .get(file)
            .is_some_and(|open| open.modified.is_some())
    }

    /// Returns when [`Self::expired`] will return a file.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let modified = self.files.values().filter_map(|open| open.modified);
        modified.map(|modified| modified.deadline()).min()
    }

    /// Returns the files that count as complete now although programs have them open.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<PathBuf> {
        let mut expired = Vec::new();
        for (file, open) in &mut self.files {
            let is_over = open
                .modified
                .is_some_and(|modified| modified.deadline() <= now);
            if is_over {
                open.modified = None;
                expired.push(file.clone());
            }
            // Creating a file opens it at once: this is a new name of a complete one.
            open.is_new = false;
        }
        self.files
            .retain(|_, open| open.descriptors > 0 || open.modified.is_some());
        expired
    }
}

impl OpenFile {
    fn modify(&mut self, now: Instant) {
        let first = self.modified.map_or(now, |modified| modified.first);
        self.modified = Some(Modifications {
            first,
            last: now,
            is_closed: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incomplete_after(events: &[&str]) -> bool {
        let now = Instant::now();
        let file = Path::new("a.yaml");
        let mut writes = Writes::default();
        for event in events {
            match *event {
                "create" => writes.created(file.into()),
                "open" => writes.opened(file.into(), now),
                "modify" => writes.modified(file.into(), now),
                "close" => drop(writes.closed(file, Access::Write)),
                "close-read" => drop(writes.closed(file, Access::Read)),
                "replace" => writes.renamed_to(file.into(), 1),
                "delete" => writes.removed(file),
                "lost" => writes.lost_events(),
                _ => panic!("{event}"),
            }
        }
        writes.is_incomplete(file)
    }

    #[test]
    fn a_modified_file_is_incomplete_until_all_descriptors_are_closed() {
        for (events, expected) in [
            ("open modify", true),
            ("modify open", true),
            ("open modify close", false),
            ("modify open close", false),
            ("open close", false),
            ("open open modify close", true),
            ("open open modify close close", false),
            ("open open modify close close-read", false),
            ("open open modify close-read", true),
            ("open open modify close-read close", false),
            ("open close-read", false),
            // Opened before the directory was watched.
            ("modify", true),
            ("modify close", false),
            ("create", false),
            ("create open", true),
            ("create open close", false),
            ("open modify replace", false),
            ("open modify delete", false),
            ("open modify lost", true),
            ("open open modify lost close", false),
        ] {
            let events: Vec<_> = events.split(' ').collect();
            assert_eq!(incomplete_after(&events), expected, "{events:?}");
        }
    }

    #[test]
    fn a_file_that_is_renamed_stays_incomplete() {
        let now = Instant::now();
        let mut writes = Writes::default();
        let at = |name: &str| PathBuf::from(name);
        writes.opened(at("a~"), now);
        writes.modified(at("a~"), now);
        writes.renamed_from(&at("a~"), 7);
        writes.renamed_to(at("a"), 7);
        assert!(writes.is_incomplete(&at("a")) && !writes.is_incomplete(&at("a~")));
        assert!(writes.closed(&at("a"), Access::Write));
        assert!(!writes.is_incomplete(&at("a")) && writes.files.is_empty());
    }

    #[test]
    fn a_file_that_is_not_closed_is_incomplete_for_a_limited_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut writes = Writes::default();
        writes.opened("a".into(), start);
        writes.modified("a".into(), start);
        writes.modified("a".into(), start + second);
        assert_eq!(writes.deadline(), Some(start + second + MAX_PAUSE));
        assert!(writes.expired(start + MAX_PAUSE).is_empty());
        assert_eq!(writes.expired(start + second + MAX_PAUSE), [Path::new("a")]);
        assert!(!writes.is_incomplete(Path::new("a")));
        let mut now = start;
        writes.modified("b".into(), start);
        while writes.is_incomplete(Path::new("b")) {
            assert!(now < start + MAX_WRITE + second);
            now += second;
            writes.modified("b".into(), now);
            writes.expired(now);
        }
        assert_eq!(now, start + MAX_WRITE);
    }
}
