//! Sources and the outlet, from objects and files to changes.

mod manifests;
mod outlet;

use tokio::sync::mpsc::UnboundedSender;

use super::Sink;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};

impl Sink for PerFamily<UnboundedSender<Change>> {
    fn send(&mut self, family: IpFamily, change: Change) {
        let _ = self.get(family).send(change);
    }
}
