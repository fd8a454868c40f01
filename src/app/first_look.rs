//! When it is known whether configuration, Node and machine fit together, and what follows from it.
//!
//! Apart from [`fitting`](super::fitting), which answers that, because nothing waits for the
//! answer: rules are written while the Node is still being asked for.

use anyhow::bail;
use tokio::sync::watch::{self, Sender};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::fitting::{self, Finding};
use crate::config::Config;
use crate::model::{Change, Kind, Node};
use crate::net::{IpFamily, PerFamily};
use crate::sync::{ChangeReceiver, ChangeSender, change_channel};
use crate::telemetry::SyncMetrics;
use crate::watch::Sink;

/// What has been found out so far.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Whether this machine can be programmed.
    usable: PerFamily<Option<bool>>,
    /// The first list of Nodes is complete.
    has_list: bool,
    /// The Node that it has.
    node: Option<Box<Node>>,
}

impl Known {
    fn is_complete(&self) -> bool {
        self.usable.v4.is_some() && self.usable.v6.is_some() && self.has_list
    }
}

/// Waits for all that it takes.
#[derive(Clone)]
pub(super) struct FirstLook(Sender<Known>);

/// What arrives from a source.
pub(super) struct Incoming {
    /// All of it, for each family.
    pub(super) changes: PerFamily<ChangeReceiver>,
    /// What comes first, to be looked at.
    pub(super) first_look: FirstLook,
}

/// Where a source puts changes, and where they arrive.
pub(super) fn begin(metrics: &SyncMetrics) -> (Watched, Incoming) {
    let (v4, v4_changes) = change_channel(metrics.clone());
    let (v6, v6_changes) = change_channel(metrics.clone());
    let known = watch::channel(Known::default()).0;
    let watched = Watched {
        families: PerFamily { v4, v6 },
        known: known.clone(),
        node: None,
    };
    let changes = PerFamily {
        v4: v4_changes,
        v6: v6_changes,
    };
    let first_look = FirstLook(known);
    let incoming = Incoming {
        changes,
        first_look,
    };
    (watched, incoming)
}

impl FirstLook {
    /// The programs of a family have been looked for.
    pub(super) fn found(&self, family: IpFamily, is_usable: bool) {
        self.0
            .send_modify(|known| *known.usable.get_mut(family) = Some(is_usable));
    }

    /// Looks once, when all is known.
    ///
    /// # Errors
    ///
    /// They do not fit, and this process had better end.
    pub(super) async fn run(
        &self,
        config: &Config,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut known = self.0.subscribe();
        let known = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            known = known.wait_for(Known::is_complete) => known?.clone(),
        };
        let usable = known.usable.map(|_, usable| usable == Some(true));
        for finding in fitting::findings(config, usable, known.node.as_deref()) {
            match finding {
                Finding::Usual(text) => info!("{text}"),
                Finding::Odd(text) => warn!("{text}"),
                Finding::Fatal(text) => bail!(text),
            }
        }
        Ok(())
    }
}

/// Passes changes on to both families, and notes what the first list says of the Node.
pub(super) struct Watched {
    families: PerFamily<ChangeSender>,
    known: Sender<Known>,
    node: Option<Box<Node>>,
}

impl Watched {
    fn note(&mut self, change: &Change) {
        match change {
            Change::Node(node) => self.node.clone_from(node),
            Change::Listed(Kind::Node) => {
                self.known.send_if_modified(|known| {
                    let is_first = !known.has_list;
                    if is_first {
                        known.has_list = true;
                        known.node.clone_from(&self.node);
                    }
                    is_first
                });
            }
            _ => {}
        }
    }
}

impl Sink for Watched {
    fn send(&mut self, family: IpFamily, change: Change) {
        // Both families are told the same of the Node.
        if family == IpFamily::V4 {
            self.note(&change);
        }
        self.families.get(family).send(change);
    }
}
