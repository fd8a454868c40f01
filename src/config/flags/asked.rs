//! Which Services a command is about.
//!
//! Apart because names and namespaces are typed alike whatever becomes of them.

use clap::Args;

use crate::config::Unusable;
use crate::inspect::catalog::{NamePattern, PortQuery};

/// Which Services: those of these names, or all of a namespace.
#[derive(Debug, Clone, Args)]
pub struct AskedArgs {
    /// Only these: `web`, `shop/web`, `shop/web:http`, `web:80` or `shop/dns:53/udp`
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl AskedArgs {
    /// What names and namespace say together.
    ///
    /// # Errors
    ///
    /// If they contradict each other.
    pub fn asked(&self) -> Result<PortQuery, Unusable> {
        PortQuery::new(&self.names, self.namespace.as_deref())
            .map_err(|error| Unusable::of_flag("namespace", error.to_string()))
    }
}
