//! Files of a history: segments of compressed records, of which the oldest are deleted.
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

use super::record::HistoryRecord;

/// Maximum bytes of all segments.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Segments in [`MAX_BYTES`]: one at a time is deleted.
const SEGMENTS: u64 = 16;

/// Digits of the number in the name of a segment.
const DIGITS: usize = 10;

/// Bytes that a file of any size takes on most disks.
const BLOCK: u64 = 4096;

const PREFIX: &str = "history-";
const SUFFIX: &str = ".jsonl.gz";

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    // As they are written: a larger number has no successor.
    (digits.len() == DIGITS).then(|| digits.parse().ok())?
}

/// Returns the segments in order, with their sizes on disk.
fn segments(folder: &Path) -> io::Result<Vec<(u64, PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(number) {
            let bytes = entry.metadata()?.len().next_multiple_of(BLOCK);
            found.push((number, entry.path(), bytes));
        }
    }
    found.sort();
    Ok(found)
}

/// Writer of segments in a folder.
#[derive(Debug)]
pub(super) struct HistoryFolder {
    path: PathBuf,
    max_bytes: u64,
    segment: Option<Segment>,
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
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record.
    pub(super) fn append(&mut self, record: &HistoryRecord) -> io::Result<()> {
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut member, record)?;
        member.write_all(b"\n")?;
        let member = member.finish()?;
        let mut segment = match self.segment.take() {
            Some(segment) if self.has_room(&segment, member.len() as u64) => segment,
            _ => self.begin_segment()?,
        };
        // After an error the segment is not used again. What was written of the record is cut off,
        // so that a full disk gets its space back.
        segment.file.write_all(&member).inspect_err(|_| {
            let _ = segment.file.set_len(segment.bytes);
        })?;
        segment.bytes += member.len() as u64;
        self.segment = Some(segment);
        Ok(())
    }

    /// Reports whether a record belongs into the segment: it is not full, and still the file at its
    /// path. The folder may have been deleted, or its disk unmounted.
    fn has_room(&self, segment: &Segment, bytes: u64) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let at_path = fs::metadata(&segment.path).map(identity).ok();
        let open = segment.file.metadata().map(identity).ok();
        at_path.is_some() && at_path == open && segment.bytes + bytes <= self.max_bytes / SEGMENTS
    }

    /// Deletes the oldest segments until there is room for one, and creates it.
    fn begin_segment(&self) -> io::Result<Segment> {
        let segments = segments(&self.path)?;
        let next = segments.last().map_or(0, |(number, ..)| number + 1);
        let mut bytes: u64 = segments.iter().map(|(.., bytes)| bytes).sum();
        for (_, path, of_segment) in segments {
            if bytes + self.max_bytes / SEGMENTS <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            bytes -= of_segment;
        }
        let path = self.path.join(format!("{PREFIX}{next:0DIGITS$}{SUFFIX}"));
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        Ok(Segment {
            file: options.open(&path)?,
            path,
            bytes: 0,
        })
    }
}

/// Segments of a folder, for readers.
#[cfg(feature = "tools")]
#[derive(Debug)]
pub(crate) struct HistoryFiles(Vec<PathBuf>);

/// Maximum bytes of the text of a segment: a file of this program has far fewer.
#[cfg(feature = "tools")]
const MAX_TEXT: u64 = 1 << 30;

/// Maximum bytes of a record: a payload has at most one MiB, and JSON escapes some of it.
#[cfg(feature = "tools")]
const MAX_LINE: u64 = 8 << 20;

#[cfg(feature = "tools")]
impl HistoryFiles {
    /// Finds the segments in a folder.
    pub(crate) fn find(folder: &Path) -> io::Result<Self> {
        let segments = segments(folder)?.into_iter();
        Ok(Self(segments.map(|(_, path, _)| path).collect()))
    }

    /// Reports whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes on all records, the oldest first. What cannot be read of a segment is left out.
    /// Returns the number of such segments.
    pub(crate) fn read(&self, each: &mut dyn FnMut(HistoryRecord)) -> usize {
        let read = |path: &PathBuf| Self::read_segment(path, each);
        self.0.iter().map(read).filter(Result::is_err).count()
    }

    fn read_segment(path: &Path, each: &mut dyn FnMut(HistoryRecord)) -> io::Result<()> {
        // A copied folder may have anything under these names.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let text = flate2::read::MultiGzDecoder::new(BufReader::new(File::open(path)?));
        let mut text = BufReader::new(text.take(MAX_TEXT));
        let mut is_whole = true;
        loop {
            let mut line = Vec::new();
            if (&mut text).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // A record of another version, or the rest of a line that is too long.
            match serde_json::from_slice(&line) {
                Ok(record) => each(record),
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
