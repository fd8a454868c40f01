//! Which service ports are asked for: by names, by a namespace, or all of them.
//!
//! Apart from the [pattern](super::NamePattern) because names and a namespace say together what is
//! meant, and in every command alike.

use super::missing::{Missing, NoSuch};
use super::namespaces::NoNamespace;
use super::pattern::{NamePattern, OtherNamespace};
use super::port::PortName;

/// Which service ports are asked for. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    names: Vec<NamePattern>,
    namespace: Option<Box<str>>,
}

impl Asked {
    /// By any of the names, if there are some, and in that namespace, if one is said.
    ///
    /// # Errors
    ///
    /// If a name is in another namespace.
    pub fn new(names: &[NamePattern], namespace: Option<&str>) -> Result<Self, OtherNamespace> {
        let within = |name: &NamePattern| match namespace {
            Some(namespace) => name.within(namespace),
            None => Ok(name.clone()),
        };
        Ok(Self {
            names: names.iter().map(within).collect::<Result<_, _>>()?,
            namespace: namespace.map(Box::from),
        })
    }

    /// Whether nothing less than all is asked for.
    pub fn is_all(&self) -> bool {
        self.names.is_empty() && self.namespace.is_none()
    }

    /// Whether a service port is asked for that is reached at ports of these numbers.
    pub fn fits(&self, name: &PortName, numbers: &(impl IntoIterator<Item = u16> + Clone)) -> bool {
        let namespace = self.namespace.as_deref();
        let mut names = self.names.iter();
        namespace.is_none_or(|namespace| namespace == name.namespace())
            && (self.names.is_empty() || names.any(|one| one.fits(name, numbers.clone())))
    }

    /// That each name fits something, or that something is in the namespace if there are no names;
    /// what is known comes with the numbers of its ports.
    ///
    /// # Errors
    ///
    /// The names that fit nothing, in their order; or the namespace.
    pub fn check<'c, N: IntoIterator<Item = u16>>(
        &self,
        known: &(impl Iterator<Item = (&'c PortName, N)> + Clone),
    ) -> Result<(), Missing> {
        if let ([], Some(namespace)) = (self.names.as_slice(), &self.namespace) {
            let known = known.clone().map(|(name, _)| name);
            let missing = NoNamespace::of(namespace, known).map(NoSuch::Namespace);
            return missing.map_or(Ok(()), |missing| Err(Missing(vec![missing])));
        }
        let names = self.names.iter();
        let missing = names.filter_map(|name| NoSuch::of(name, known));
        match missing.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            some => Err(Missing(some)),
        }
    }
}
