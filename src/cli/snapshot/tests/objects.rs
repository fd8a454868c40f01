//! Warnings of objects that the API server has and that are left out.

use super::*;
use crate::ingest::ObjectName;

#[test]
fn undecodable_objects_are_counted_and_one_is_named() {
    assert_eq!(undecodable(&[]), None);
    let problem = |name| ObjectDecodeError {
        name: ObjectName {
            namespace: "shop".to_owned(),
            name: String::from(name),
        },
        source: "expected a number\u{1b}[2J".into(),
    };
    let text = undecodable(&[problem("web"), problem("db")]).unwrap();
    assert!(text.contains("left out: 2, such as `shop/web`"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}
