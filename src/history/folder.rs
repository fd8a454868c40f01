//! Files of a history: segments of compressed records, and checkpoints of all rules between them.
//! The oldest are deleted.
//!
//! Each record is a gzip member of its own, so that `zcat` reads a segment that is still written,
//! and at most the last record is lost if the process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
#[cfg(feature = "tools")]
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

#[cfg(feature = "tools")]
use super::record::CheckpointHead;
use super::record::HistoryRecord;
use crate::net::{IpFamily, PerFamily};

/// Maximum bytes of all files.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Segments in [`MAX_BYTES`].
const SEGMENTS: u64 = 16;

/// Digits of the number in the name of a segment.
const DIGITS: usize = 10;

/// Bytes that a file of any size takes on most disks.
const BLOCK: u64 = 4096;

const SEGMENT: &str = "history-";
const CHECKPOINT: &str = "checkpoint-";

/// Beginning of the names that `tempfile` gives; six characters follow.
const TEMPORARY: &str = ".tmp";

/// File of a history, with its size on disk.
#[derive(Debug)]
struct HistoryFile {
    /// Place among all files.
    number: u64,
    /// Family of a checkpoint; `None` for a segment.
    checkpoint: Option<IpFamily>,
    path: PathBuf,
    bytes: u64,
}

impl HistoryFile {
    /// Returns the files in order.
    fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some((number, checkpoint)) = name.to_str().and_then(parse_name) {
                found.push(Self {
                    number,
                    checkpoint,
                    path: entry.path(),
                    bytes: entry.metadata()?.len().next_multiple_of(BLOCK),
                });
            }
        }
        found.sort_by(|one, other| (one.number, &one.path).cmp(&(other.number, &other.path)));
        Ok(found)
    }
}

/// Returns the place and the family in the name of a file.
fn parse_name(name: &str) -> Option<(u64, Option<IpFamily>)> {
    let (digits, family) = if let Some(rest) = name.strip_prefix(SEGMENT) {
        (rest.strip_suffix(".jsonl.gz")?, None)
    } else {
        let rest = name.strip_prefix(CHECKPOINT)?;
        let of_family = |(family, suffix): (_, &&str)| Some((rest.strip_suffix(*suffix)?, family));
        let (digits, family) = CHECKPOINT_SUFFIXES.pairs().find_map(of_family)?;
        (digits, Some(family))
    };
    // As they are written: a larger number has no successor.
    let number = (digits.len() == DIGITS).then(|| digits.parse().ok())??;
    Some((number, family))
}

const CHECKPOINT_SUFFIXES: PerFamily<&str> = PerFamily {
    v4: "-ipv4.rules.gz",
    v6: "-ipv6.rules.gz",
};

#[derive(Debug)]
pub(super) struct HistoryFolder {
    path: PathBuf,
    max_bytes: u64,
    segment: Option<Segment>,
    /// Numbers of the last checkpoints that this process wrote.
    checkpoints: PerFamily<Option<u64>>,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl HistoryFolder {
    /// Returns a writer into an existing folder. It begins a new segment: the last one of another
    /// process may end with a part of a record.
    pub(super) const fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self {
            path,
            max_bytes,
            segment: None,
            checkpoints: PerFamily { v4: None, v6: None },
        }
    }

    /// Deletes the temporary files of processes that were killed.
    pub(super) fn remove_temporary_files(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
            let is_random = |rest: &str| rest.len() == 6 && rest.chars().all(char::is_alphanumeric);
            if rest.is_some_and(is_random) && entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes a checkpoint. The records that follow are in a new segment.
    pub(super) fn checkpoint(&mut self, family: IpFamily, file: &[u8]) -> io::Result<()> {
        self.segment = None;
        let (number, _) = self.make_room(file.len() as u64)?;
        let suffix = CHECKPOINT_SUFFIXES.get(family);
        self.replace(&format!("{CHECKPOINT}{number:0DIGITS$}{suffix}"), file)?;
        *self.checkpoints.get_mut(family) = Some(number);
        Ok(())
    }

    /// Replaces a file atomically. Only its owner can read it.
    pub(super) fn replace(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
        file.write_all(text)?;
        file.persist(self.path.join(name))?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. Returns the families whose last checkpoint is deleted, or soon will be.
    pub(super) fn append(&mut self, record: &HistoryRecord) -> io::Result<Vec<IpFamily>> {
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut member, record)?;
        member.write_all(b"\n")?;
        let member = member.finish()?;
        let mut due = Vec::new();
        let mut segment = match self.segment.take() {
            Some(segment) if self.has_room(&segment, member.len() as u64) => segment,
            _ => {
                let (segment, old) = self.begin_segment()?;
                due = old;
                segment
            }
        };
        // After an error the segment is not used again. What was written of the record is cut off,
        // so that a full disk gets its space back.
        segment.file.write_all(&member).inspect_err(|_| {
            let _ = segment.file.set_len(segment.bytes);
        })?;
        segment.bytes += member.len() as u64;
        self.segment = Some(segment);
        Ok(due)
    }

    /// Reports whether a record belongs into the segment: it is not full, and still the file at its
    /// path. The folder may have been deleted, or its disk unmounted.
    fn has_room(&self, segment: &Segment, bytes: u64) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let at_path = fs::metadata(&segment.path).map(identity).ok();
        let open = segment.file.metadata().map(identity).ok();
        at_path.is_some() && at_path == open && segment.bytes + bytes <= self.max_bytes / SEGMENTS
    }

    /// Creates a segment. Also returns the families whose last checkpoint is missing, or in the
    /// older half of the files.
    fn begin_segment(&self) -> io::Result<(Segment, Vec<IpFamily>)> {
        let (number, files) = self.make_room(self.max_bytes / SEGMENTS)?;
        let is_due = |family: &IpFamily| {
            self.checkpoints.get(*family).is_some_and(|last| {
                let after = files.iter().filter(|file| file.number > last);
                let bytes: u64 = after.map(|file| file.bytes).sum();
                bytes > self.max_bytes / 2 || files.iter().all(|file| file.number != last)
            })
        };
        let due = IpFamily::ALL.into_iter().filter(is_due).collect();
        let path = self
            .path
            .join(format!("{SEGMENT}{number:0DIGITS$}.jsonl.gz"));
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        let segment = Segment {
            path,
            file,
            bytes: 0,
        };
        Ok((segment, due))
    }

    /// Deletes the oldest files until there is room for one of this size. Returns its number, and
    /// the files that are left.
    fn make_room(&self, bytes: u64) -> io::Result<(u64, Vec<HistoryFile>)> {
        let mut files = HistoryFile::all(&self.path)?;
        let next = files.last().map_or(0, |last| last.number + 1);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        let mut deleted = 0;
        for file in &files {
            if total + bytes.next_multiple_of(BLOCK) <= self.max_bytes {
                break;
            }
            fs::remove_file(&file.path)?;
            total -= file.bytes;
            deleted += 1;
        }
        files.drain(..deleted);
        Ok((next, files))
    }
}

#[cfg(feature = "tools")]
#[derive(Debug)]
pub(crate) struct HistoryFiles(Vec<HistoryFile>);

#[cfg(feature = "tools")]
#[derive(Debug)]
pub(crate) enum HistoryEntry {
    /// Attempt of a sync.
    Record(Box<HistoryRecord>),
    /// All rules of a family, in this file.
    Checkpoint(IpFamily, CheckpointHead, PathBuf),
}

/// Maximum bytes of the text of a file: one of this program has far fewer.
#[cfg(feature = "tools")]
const MAX_TEXT: u64 = 1 << 30;

/// Maximum bytes of a record: a payload has at most one MiB, and JSON escapes some of it.
#[cfg(feature = "tools")]
const MAX_LINE: u64 = 8 << 20;

#[cfg(feature = "tools")]
impl HistoryFiles {
    pub(crate) fn find(folder: &Path) -> io::Result<Self> {
        HistoryFile::all(folder).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the paths of the files, in order.
    pub(crate) fn into_paths(self) -> Vec<PathBuf> {
        self.0.into_iter().map(|file| file.path).collect()
    }

    /// Passes on all entries, the oldest first. What cannot be read of a file is left out. Returns
    /// the number of such files.
    pub(crate) fn read(&self, each: &mut dyn FnMut(HistoryEntry)) -> usize {
        let mut read = |file: &HistoryFile| match file.checkpoint {
            Some(family) => {
                let head = read_head(&file.path)?;
                each(HistoryEntry::Checkpoint(family, head, file.path.clone()));
                Ok(())
            }
            None => Self::read_segment(&file.path, each),
        };
        let results = self.0.iter().map(&mut read);
        results.filter(io::Result::is_err).count()
    }

    fn read_segment(path: &Path, each: &mut dyn FnMut(HistoryEntry)) -> io::Result<()> {
        let mut text = open(path)?;
        let mut is_whole = true;
        loop {
            let mut line = Vec::new();
            if (&mut text).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // A record of another version, or the rest of a line that is too long.
            match serde_json::from_slice(&line) {
                Ok(record) => each(HistoryEntry::Record(record)),
                Err(_) => is_whole = false,
            }
        }
        if is_whole {
            Ok(())
        } else {
            Err(io::Error::other("some records cannot be read"))
        }
    }
}

/// Opens a compressed file.
#[cfg(feature = "tools")]
fn open(path: &Path) -> io::Result<impl BufRead> {
    // A copied folder may have anything under these names.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let text = flate2::read::MultiGzDecoder::new(BufReader::new(File::open(path)?));
    Ok(BufReader::new(text.take(MAX_TEXT)))
}

#[cfg(feature = "tools")]
fn read_head(path: &Path) -> io::Result<CheckpointHead> {
    let mut lines = open(path)?.take(MAX_LINE).lines();
    let head = lines.nth(1).transpose()?;
    let head = head.and_then(|line| CheckpointHead::parse(&line));
    head.ok_or_else(|| io::Error::other("not a checkpoint"))
}

#[cfg(feature = "tools")]
pub(crate) fn read_checkpoint(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}
