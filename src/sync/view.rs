//! The Services as they are rendered: the tracker's, with other states in place of some.

use crate::model::{ServiceName, ServiceState, Services};
use crate::tracker::Tracker;

/// The tracker's Services, with its overrides in place of those that have one.
pub(super) struct View<'a>(pub(super) &'a Tracker);

impl Services for View<'_> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        let Self(tracker) = *self;
        let overrides = tracker.overrides();
        if overrides.is_empty() {
            return tracker.all();
        }
        let known = tracker.all().map(|(name, state)| {
            let rendered = overrides.get(name).map(|one| &one.state);
            (name, rendered.unwrap_or(state))
        });
        // Deleted in the cluster, and not in the kernel.
        let gone = overrides
            .iter()
            .filter(move |(name, _)| tracker.get(name).is_none())
            .map(|(name, one)| (name, &one.state));
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
        let Self(tracker) = *self;
        let rendered = tracker.overrides().get(name).map(|one| &one.state);
        rendered.or_else(|| tracker.get(name))
    }
}
