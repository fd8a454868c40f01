//! Chains of a tree that a restore writes or deletes.

use crate::render::service::write_chain_declarations;

/// Chain to write.
#[derive(Debug)]
pub(crate) struct WrittenChain {
    /// Name of the tree chain; of the root, that of the dispatch chain.
    pub(crate) name: Box<str>,
    pub(crate) extent: ChainExtent,
    /// Rules with `-A NAME`; of the root, without jumps to `KUBE-NODEPORTS`. Inserted ones with
    /// `-I NAME NUMBER`.
    pub(crate) rules: String,
}

/// Rules of one tree chain that a restore writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainExtent {
    /// All, after the chain was emptied.
    Whole,
    /// Those that the kernel does not have yet; it has all others.
    Insertions,
}

/// Chains of a tree to write and to delete.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// Written tree chains, each after those that it jumps to.
    pub(crate) written: Vec<WrittenChain>,
    /// Rules of the root, without jumps to `KUBE-NODEPORTS`; `None` if they are in the kernel
    /// already.
    pub(crate) root: Option<String>,
    /// Chains that no jump references anymore.
    pub(crate) deleted: Vec<Box<str>>,
}

impl WrittenChain {
    pub(super) const fn whole(name: Box<str>, rules: String) -> Self {
        let extent = ChainExtent::Whole;
        Self {
            name,
            extent,
            rules,
        }
    }

    pub(super) const fn insertions(name: Box<str>, rules: String) -> Self {
        let extent = ChainExtent::Insertions;
        Self {
            name,
            extent,
            rules,
        }
    }

    /// Appends the rules of a tree chain, after its declaration if it is written whole.
    pub(crate) fn write(&self, buf: &mut Vec<u8>) {
        if self.extent == ChainExtent::Whole {
            write_chain_declarations(buf, &[&self.name]);
        }
        buf.extend_from_slice(self.rules.as_bytes());
    }
}

impl TreeChanges {
    /// Appends each written chain.
    pub(crate) fn write_chains(&self, buf: &mut Vec<u8>) {
        for chain in &self.written {
            chain.write(buf);
        }
    }

    /// Returns the number of written rules.
    pub(crate) fn rule_count(&self) -> u64 {
        let texts = self.written.iter().map(|chain| &chain.rules);
        let lines = texts.chain(&self.root).map(|text| text.lines().count());
        lines.sum::<usize>() as u64
    }

    /// Returns the number of written and deleted chains.
    pub(crate) fn chain_count(&self) -> u64 {
        let root = usize::from(self.root.is_some());
        (self.written.len() + self.deleted.len() + root) as u64
    }
}
