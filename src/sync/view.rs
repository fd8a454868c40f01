//! The Services as they are rendered: the tracker's, with other states in place of some.

use std::collections::BTreeMap;

use crate::model::{ServiceName, ServiceState, Services};
use crate::tracker::Tracker;

/// The tracker's Services, but `rendered` states of those that have one.
pub(super) struct View<'a> {
    pub(super) tracker: &'a Tracker,
    pub(super) rendered: &'a BTreeMap<ServiceName, ServiceState>,
}

impl Services for View<'_> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        if self.rendered.is_empty() {
            return self.tracker.all();
        }
        let known = self.tracker.all();
        let known = known.map(|(name, state)| (name, self.rendered.get(name).unwrap_or(state)));
        // Deleted in the cluster, and not in the kernel.
        let is_gone = |name: &ServiceName| self.tracker.get(name).is_none();
        let gone = self.rendered.iter().filter(move |(name, _)| is_gone(name));
        let (mut known, mut gone) = (known.peekable(), gone.peekable());
        Box::new(std::iter::from_fn(move || {
            match (known.peek(), gone.peek()) {
                (Some((known_name, _)), Some((gone_name, _))) if gone_name < known_name => {
                    gone.next()
                }
                (None, _) => gone.next(),
                (Some(_), _) => known.next(),
            }
        }))
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        let rendered = self.rendered.get(name);
        rendered.or_else(|| self.tracker.get(name))
    }
}
