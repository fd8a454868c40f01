//! From objects and files to changes.

mod ingester;
mod manifests;

use tokio::sync::mpsc::UnboundedSender;

use super::ChangeSink;
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};

impl ChangeSink for PerFamily<UnboundedSender<Change>> {
    fn send(&mut self, family: IpFamily, change: Change) {
        let _ = self.get(family).send(change);
    }
}
