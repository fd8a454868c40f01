//! `diff` of dumps that people pass on: rules that cannot be read, tables that the save program
//! left out, and comments without the names of Services.

use std::fs;

use crate::diff::Scene;

/// Compares the dump of IPv4, edited, with manifests. Returns code, stdout and stderr.
fn diff(edit: impl Fn(&str) -> String, manifests: &str, more: &[&str]) -> (i32, String, String) {
    let scene = Scene::new();
    let dump = fs::read_to_string(scene.path("ipv4")).unwrap();
    let edited = edit(&dump);
    assert_ne!(edited, dump);
    fs::write(scene.path("ipv4"), edited).unwrap();
    let args = [
        &["diff", "--from-save", "ipv4", "--manifests", manifests],
        more,
    ]
    .concat();
    let output = scene.run(&args);
    let code = output.code.unwrap();
    (code, output.stdout, output.stderr)
}

/// Changes the quotes of the rule that sends traffic of a cluster IP to `shop/web:http`, as mail
/// programs do.
fn with_an_unreadable_rule(dump: &str) -> String {
    let rule = |open, close| {
        format!("-A KUBE-SERVICES -m comment --comment {open}shop/web:http cluster IP{close} ")
    };
    dump.replace(&rule('"', '"'), &rule('\u{201c}', '\u{201d}'))
}

#[test]
fn unreadable_rules_are_an_error_and_a_difference() {
    let (code, said, errors) = diff(with_an_unreadable_rule, "before.yaml", &[]);
    let error = "error: `ipv4`: IPv4 rules cannot be read, and differ from all others: 1 of nat \
                 KUBE-SERVICES\n";
    assert_eq!((code, errors.as_str()), (2, error), "{said}");
    assert!(
        said.contains("\n    - -m comment --comment \u{201c}shop/web:http"),
        "{said}"
    );
}

/// Third-party rules: with an unknown match and target, and in a table of no proxy.
const THIRD_PARTY: &str = "*nat\n:CNI-X - [0:0]\n\
    [12:345] -A CNI-X -m unheard --of \"a b\" -j WEIRD --with x\nCOMMIT\n\
    *raw\n-A PREROUTING -j CT --notrack\nCOMMIT\n";

#[test]
fn rules_of_third_parties_are_counted_and_hide_nothing() {
    let edit = |dump: &str| {
        let jump = "-I INPUT -j KUBE-FIREWALL\n";
        let unreadable = format!("{jump}-A INPUT -s gateway.example -j ACCEPT\n");
        dump.replace(jump, &unreadable) + THIRD_PARTY
    };
    let (code, said, errors) = diff(edit, "before.yaml", &[]);
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    assert!(
        said.contains("no differences; 3 third-party rules ignored\n"),
        "{said}"
    );
}

#[test]
fn a_table_that_the_save_program_could_not_read_is_an_error() {
    let edit = |dump: &str| {
        let (filter, _) = dump.split_once("*nat\n").unwrap();
        format!("{filter}# Table `nat' is incompatible, use 'nft' tool.\n")
    };
    let (code, said, errors) = diff(edit, "before.yaml", &[]);
    let error =
        "error: `ipv4`: IPv4 nat is not compared: the save program could not read it\nhint: ";
    assert!(errors.starts_with(error), "{errors}");
    assert_eq!(code, 2, "{said}");
    assert!(said.starts_with("no differences\n"), "{said}");
    assert!(!said.contains("IPv4 nat is not compared"), "{said}");
}

/// No rule of a Service is in mangle, so that this hides no difference.
#[test]
fn an_unreadable_table_without_rules_of_services_is_noted() {
    let edit = |dump: &str| format!("{dump}# Table `mangle' is incompatible, use 'nft' tool.\n");
    let (code, said, errors) = diff(edit, "before.yaml", &[]);
    assert_eq!(code, 0, "{said}{errors}");
    let note = "IPv4 mangle is not compared: the save program could not read it\n";
    assert!(said.contains(note), "{said}");
}
