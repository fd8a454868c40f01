//! Tests of `desired`.

use super::*;
use crate::model::{Change, NamespaceLimits, Service, ServicePort};

#[test]
fn services_over_a_limit_are_named() {
    let limits = NamespaceLimits {
        endpoints: 100,
        rules_without_endpoints: 2,
    };
    let mut tracker = Tracker::new(std::time::UNIX_EPOCH).with_limits(limits);
    for (name, ports) in [("cart", 1), ("web", 3)] {
        let ports = (1..=ports).map(|number| ServicePort::tcp(&number.to_string(), number));
        let service = Service::plain([10, 96, 0, 1].into(), ports.collect());
        tracker.apply(Change::Service(
            ServiceName::new("shop", name),
            Some(Box::new(service)),
        ));
    }
    let over = over_limit(&tracker);
    assert_eq!(over, ServiceNames(vec!["shop/web".to_owned()]));
}
