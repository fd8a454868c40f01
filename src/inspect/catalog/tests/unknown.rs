//! Rules that cannot be read.

use super::SAVED;
use crate::inspect::catalog::{Catalog, NamePattern, NoMatch, PortName, UnknownRules};
use crate::rules::RuleSet;

fn read(text: &str) -> Catalog {
    Catalog::read(&RuleSet::parse(text).unwrap())
}

#[test]
fn rules_that_cannot_be_read_are_counted_at_their_service_port() {
    let whole = read(SAVED);
    assert!(whole.unknown.is_none());
    assert!(whole.ports.values().all(|view| view.unreadable_rules == 0));
    let catalog = read(&SAVED.replace("--to-destination 10.4.0", "--to-destination x.x.x"));
    let (_, web) = catalog.ports.last_key_value().unwrap();
    assert_eq!((web.endpoints.len(), web.unreadable_rules), (0, 3));
    let unknown = catalog.unknown;
    assert_eq!((unknown.unreadable, unknown.unreadable_frontends), (3, 0));
    // They may lead to endpoints.
    assert!(web.is_served() && web.unreachable_from().is_empty());
}

#[test]
fn a_frontend_that_cannot_be_read_may_be_of_any_service() {
    let cut = SAVED.replace("-d 10.96.0.10/32 -p tcp", "-d x.x.x.x/32 -p tcp");
    let unknown = read(&cut).unknown;
    assert_eq!((unknown.unreadable, unknown.unreadable_frontends), (1, 1));
    let pattern: NamePattern = "shop/gone".parse().unwrap();
    let none = std::iter::empty::<(&PortName, Vec<u16>)>();
    let error = NoMatch::of(&pattern, &none, UnknownRules::default()).unwrap();
    assert!(
        error
            .to_string()
            .starts_with("no Service `shop/gone` has rules\n")
    );
    let error = NoMatch::of(&pattern, &none, unknown).unwrap();
    let shown = error.to_string();
    let expected = "no Service `shop/gone` has rules among those that can be read\n\
                    hint: save the rules again: 1 cannot be read, and may be its rules";
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn without_the_nat_table_no_service_is_said_to_have_no_rules() {
    let (_, filter) = SAVED.split_once("COMMIT\n").unwrap();
    let catalog = read(filter);
    assert_eq!(catalog.unknown.families_without_nat, 1);
    let pattern: NamePattern = "shop/web".parse().unwrap();
    let none = std::iter::empty::<(&PortName, Vec<u16>)>();
    let error = NoMatch::of(&pattern, &none, catalog.unknown).unwrap();
    let expected = "no Service `shop/web` has rules in the tables that were read\nhint: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}
