//! `recorded` statements: the kernel as a recorded kube-proxy would have it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use deltaproxy::testing::render::JUMPS;
use deltaproxy::testing::rules::{Comparison, RuleSet, Table};

/// Chains to which all Services add rules, in an order that is random upstream.
const DISPATCH: [(Table, &str); 6] = [
    (Table::Filter, "KUBE-SERVICES"),
    (Table::Filter, "KUBE-EXTERNAL-SERVICES"),
    (Table::Filter, "KUBE-NODEPORTS"),
    (Table::Filter, "KUBE-PROXY-FIREWALL"),
    (Table::Nat, "KUBE-SERVICES"),
    (Table::Nat, "KUBE-NODEPORTS"),
];

/// A file of `tests/golden`.
pub(crate) fn file(name: &str) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"))
}

/// A kernel with the jumps that kube-proxy ensures before its first restore.
pub(crate) fn kernel_with_jumps() -> Result<RuleSet, String> {
    let mut text = String::new();
    for jump in JUMPS {
        let (_, chain) = jump.rule.rsplit_once(' ').ok_or("a jump without target")?;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "*{}\n:{chain} - [0:0]\n-I {} {}\nCOMMIT\n",
            jump.table, jump.from, jump.rule
        );
    }
    let mut rules = RuleSet::default();
    match rules.apply(&text) {
        Ok(()) => Ok(rules),
        Err(refused) => Err(format!("{refused:?}")),
    }
}

/// Whether `ours` is what kube-proxy has, canaries and the order of Services aside.
pub(crate) fn compare(recorded: &RuleSet, ours: &RuleSet) -> Result<(), String> {
    let comparison = Comparison {
        chosen: &|table, name| table != Table::Mangle && name != "KUBE-PROXY-CANARY",
        unordered: &DISPATCH,
    };
    let difference = comparison.compare(recorded, ours);
    if !difference.is_empty() {
        return Err(format!(
            "the recorded rules (left) and ours (right) differ\n{difference}"
        ));
    }
    let tail = |rules: &RuleSet| {
        let chain = rules.chain(Table::Nat, "KUBE-SERVICES");
        chain.and_then(|chain| chain.rules.last().cloned())
    };
    if tail(recorded) == tail(ours) {
        Ok(())
    } else {
        Err("the way to NodePorts is not last".to_owned())
    }
}
