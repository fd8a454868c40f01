//! The kernel's named packet counters, to which rules add with `-m nfacct`.
//!
//! Apart because they are no rules: they have an interface of their own, belong to both families,
//! and outlive the rules that name them.
//!
//! # Source
//!
//! Upstream: pkg/proxy/util/nfacct (v1.36)

use std::rc::Rc;

use nix::errno::Errno;

use super::RestoreError;
use super::netlink;
use super::nfacct_message::{Answer, Request, answer, request};

/// Why rules cannot name a counter.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoCounter {
    /// The kernel keeps none, or not for us.
    #[error("no nfacct counter `{name}`: {}", reason.desc())]
    Kernel {
        /// The counter's.
        name: String,
        /// What the kernel said.
        reason: Errno,
    },
    /// It is there, but a rule that names it is refused: the match is another part of the kernel
    /// and of iptables than the counters are.
    #[error("rules cannot name nfacct counters: {0}")]
    Match(Rc<RestoreError>),
}

/// How many packets the counter has seen; `None` if it is not there or may not be read.
pub fn counted_packets(name: &str) -> Option<u64> {
    match ask(Request::Get, name) {
        Ok(Answer::Packets(packets)) => Some(packets),
        _ => None,
    }
}

/// Makes the counter, unless it is there: then the kernel is busy with it, and leaves it as it is.
pub(super) fn make(name: &str) -> Result<(), Errno> {
    match ask(Request::Create, name)? {
        Answer::Done | Answer::Refused(Errno::EBUSY | Errno::EEXIST) => Ok(()),
        Answer::Refused(error) => Err(error),
        Answer::Packets(_) => Err(Errno::EBADMSG),
    }
}

/// Whether the counter is there. An error means that this kernel has no counters, or none for us.
pub(super) fn is_there(name: &str) -> Result<bool, Errno> {
    match ask(Request::Get, name)? {
        Answer::Packets(_) => Ok(true),
        Answer::Refused(Errno::ENOENT) => Ok(false),
        Answer::Refused(error) => Err(error),
        Answer::Done => Err(Errno::EBADMSG),
    }
}

fn ask(what: Request, name: &str) -> Result<Answer, Errno> {
    netlink::ask(&request(what, name)?, answer)
}
