//! How ready the kernel is to kill this process when memory runs out.
//!
//! Apart from [`sysctl`](super::sysctl) because it is of a process and not of the machine, and
//! because nobody has to give up over it.
//!
//! Upstream: pkg/util/oom/oom_linux.go, `applyOOMScoreAdj` (v1.36)

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::sysctl::Changed;

/// Sets it for this process, from -1000, never, to 1000, before all others. What it starts from now
/// on inherits it.
///
/// # Errors
///
/// It differs and cannot be written; lowering it takes CAP_SYS_RESOURCE.
pub fn set_oom_score_adj(score: i16) -> io::Result<Changed> {
    let path = Path::new("/proc/self/oom_score_adj");
    // As upstream: whatever was in the way of the first try.
    ensure(path, score).or_else(|_| ensure(path, score))
}

fn ensure(path: &Path, score: i16) -> io::Result<Changed> {
    let text = fs::read_to_string(path)?;
    let current: i16 = text
        .trim()
        .parse()
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    if current == score {
        return Ok(Changed::No);
    }
    fs::write(path, score.to_string()).map(|()| Changed::Yes)
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
