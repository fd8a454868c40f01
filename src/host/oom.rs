//! Sets how likely the kernel is to kill this process, and the programs that it runs, when memory
//! runs out.
//!
//! Kept separate from [`sysctl`](super::sysctl) because this is a setting of a process, and failing
//! to write it is never fatal.
//!
//! Upstream: pkg/util/oom/oom_linux.go, `applyOOMScoreAdj` (v1.36)

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::sysctl::Changed;

/// Sets it for this process, from -1000, never, to 1000, before all others. Programs started
/// later inherit it until `raise_oom_score_adj` sets theirs.
///
/// # Errors
///
/// It differs and cannot be written; lowering it takes CAP_SYS_RESOURCE.
pub fn set_oom_score_adj(score: i16) -> io::Result<Changed> {
    let path = Path::new("/proc/self/oom_score_adj");
    // As upstream: whatever was in the way of the first try.
    ensure(path, score).or_else(|_| ensure(path, score))
}

/// Sets that of a program just started, unless it has the score or a higher one.
///
/// # Errors
///
/// It cannot be read or written, as where `/proc` is read-only.
pub(super) fn raise_oom_score_adj(pid: u32, score: i16) -> io::Result<Changed> {
    let path = format!("/proc/{pid}/oom_score_adj");
    raise(Path::new(&path), score)
}

fn raise(path: &Path, score: i16) -> io::Result<Changed> {
    if read(path)? < score {
        fs::write(path, score.to_string()).map(|()| Changed::Yes)
    } else {
        Ok(Changed::No)
    }
}

fn ensure(path: &Path, score: i16) -> io::Result<Changed> {
    if read(path)? == score {
        return Ok(Changed::No);
    }
    fs::write(path, score.to_string()).map(|()| Changed::Yes)
}

fn read(path: &Path) -> io::Result<i16> {
    let text = fs::read_to_string(path)?;
    let score = text.trim().parse();
    score.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        fs::write(&path, "0\n").unwrap();
        assert_eq!(ensure(&path, -999).unwrap(), Changed::Yes);
        assert_eq!(fs::read_to_string(&path).unwrap(), "-999");
        assert_eq!(ensure(&path, -999).unwrap(), Changed::No);
    }

    #[test]
    fn a_score_is_raised_and_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        for (before, after) in [("-998\n", "0"), ("0\n", "0\n"), ("500\n", "500\n")] {
            fs::write(&path, before).unwrap();
            raise(&path, 0).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
    }

    /// Raising it is everybody's right.
    #[test]
    fn this_process_can_be_made_more_likely_to_be_killed() {
        let read = || fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let before: i16 = read().trim().parse().unwrap();
        let more = before.max(1);
        set_oom_score_adj(more).unwrap();
        assert_eq!(read().trim(), more.to_string());
    }
}
