//! Services that go and come back: edits of KUBE-SERVICES, or the chain written anew.

use deltaproxy::testing::rules::Backend;

use crate::arrange::{Arrangement, Headers, List, Order, is_dispatch, split_nat, target};
use crate::figures::Notes;
use crate::kernel::Kernel;
use crate::product::{Found, Product, spread};

const COUNTS: [usize; 9] = [1, 10, 50, 100, 200, 500, 1_000, 2_000, 4_000];

/// Most of the Services that there are.
const LARGEST_SHARE: f64 = 0.5;

/// Each deletion takes milliseconds there.
const LARGEST_ON_NFT: usize = 2_000;

const EDITS: &str = "-D, -I";
const WHOLE: &str = "whole chain";
const SORTED: &str = "whole chain, descending";

/// The same edits in other arrangements; that of [`EDITS`] comes first.
const ARRANGED: [Arrangement; 3] = {
    use Order::{Descending, Service};
    let first = Headers::First(Descending);
    [
        Arrangement::new(EDITS, List::Never, Headers::Beside, Service),
        Arrangement::new("-D, -I, headers first", List::Never, first, Service),
        Arrangement::new("-D, -I, headers first, -S", List::First, first, Service),
    ]
};

/// Fewer additions than this are not arranged in other ways.
const FEWEST_ARRANGED: usize = 500;

pub fn measure(kernel: &Kernel, notes: &mut Notes) {
    let mut product = Product::settled(notes.services, kernel);
    let chain = Chain::of(&product.full(Found::Everything));
    let most = notes.services as f64 * LARGEST_SHARE;
    let counts = COUNTS.into_iter().filter(|count| {
        let is_bearable = kernel.backend == Backend::Legacy || *count <= LARGEST_ON_NFT;
        (*count as f64) <= most && is_bearable
    });
    let trips: Vec<Trip> = counts
        .map(|count| Trip::new(count, &mut product, &chain))
        .collect();
    let original = format!("*nat\n{}COMMIT\n", chain.whole(&[], Sorting::AsItIs));
    notes.rounds(|notes| {
        for trip in &trips {
            trip.go(kernel, notes);
            kernel.restore(&original);
        }
    });
}

/// The rules of KUBE-SERVICES, behind the chain's name.
struct Chain {
    rules: Vec<String>,
    tail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sorting {
    AsItIs,
    Descending,
}

impl Chain {
    fn of(full: &str) -> Self {
        let (_, nat, _) = split_nat(full);
        let lines = nat.lines().filter(|line| is_dispatch(line));
        let mut rules: Vec<String> = lines
            .map(|line| line["-A KUBE-SERVICES ".len()..].to_owned())
            .collect();
        let tail = rules.pop().expect("the way to node ports");
        Self { rules, tail }
    }

    /// The chain without some of its rules.
    fn whole(&self, without: &[&String], sorting: Sorting) -> String {
        let gone: std::collections::HashSet<_> = without.iter().collect();
        let mut rules: Vec<&String> = self.rules.iter().collect();
        rules.retain(|rule| !gone.contains(rule));
        if sorting == Sorting::Descending {
            rules.sort_by_key(|rule| std::cmp::Reverse(target(rule)));
        }
        rules.push(&self.tail);
        format!(":KUBE-SERVICES - [0:0]\n{}", commands("-A", rules))
    }
}

/// Some Services go and come back; the payloads for it.
struct Trip {
    count: usize,
    there: [String; 3],
    back: [String; 3],
    /// Edits in other arrangements.
    arranged: Vec<(&'static str, String)>,
}

impl Trip {
    fn new(count: usize, product: &mut Product, chain: &Chain) -> Self {
        let rules: Vec<&String> = spread(count, chain.rules.len())
            .map(|at| &chain.rules[at])
            .collect();
        let numbers: Vec<usize> = rules.iter().map(|rule| number(rule)).collect();
        let gone = product.follow(numbers.iter().map(|n| Product::without(*n)));
        let come: Vec<_> = numbers.iter().map(|n| product.with(*n)).collect();
        let come = product.follow(come);
        let [edits, arranged @ ..] = &ARRANGED;
        let arranged = arranged.iter().filter(|way| {
            let is_listed = way.list == List::First;
            count >= FEWEST_ARRANGED && (!is_listed || product.backend() == Backend::Nft)
        });
        let arranged = arranged.map(|way| (way.name, way.of(&come))).collect();
        let (gone, come) = (others(&edits.of(&gone)), others(&edits.of(&come)));
        let there = |dispatch: String| format!("*nat\n{dispatch}{gone}COMMIT\n");
        let back = |dispatch: String| format!("*nat\n{come}{dispatch}COMMIT\n");
        Self {
            count,
            there: [
                there(commands("-D", rules.clone())),
                there(chain.whole(&rules, Sorting::AsItIs)),
                there(chain.whole(&rules, Sorting::Descending)),
            ],
            back: [
                back(commands("-I", rules)),
                back(chain.whole(&[], Sorting::AsItIs)),
                back(chain.whole(&[], Sorting::Descending)),
            ],
            arranged,
        }
    }

    /// Each way there meets the chain in its original order, or in one as good: rules that were put
    /// on top would be found at once.
    fn go(&self, kernel: &Kernel, notes: &mut Notes) {
        let mut restore = |task: &str, way: &str, payload: &str| {
            notes.add(
                &format!("{task}{}", self.count),
                way,
                kernel.restore(payload),
            );
        };
        restore("-", EDITS, &self.there[0]);
        if kernel.backend == Backend::Nft {
            restore("+", SORTED, &self.back[2]);
            restore("-", SORTED, &self.there[2]);
        }
        restore("+", WHOLE, &self.back[1]);
        restore("-", WHOLE, &self.there[1]);
        restore("+", EDITS, &self.back[0]);
        for (way, payload) in &self.arranged {
            restore("-", SORTED, &self.there[2]);
            restore("+", way, payload);
        }
    }
}

/// The lines of the nat table about other chains.
fn others(payload: &str) -> String {
    let (_, nat, _) = split_nat(payload);
    let others = nat
        .lines()
        .filter(|line| !is_dispatch(line) && !line.starts_with(":KUBE-SERVICES "));
    others.flat_map(|line| [line, "\n"]).collect()
}

fn commands(command: &str, rules: Vec<&String>) -> String {
    let lines = rules.into_iter();
    lines
        .flat_map(|rule| [command, " KUBE-SERVICES ", rule, "\n"])
        .collect()
}

/// Whose rule it is: `"ns-12/svc-001234:http cluster IP"` is Service 1234's.
fn number(rule: &str) -> usize {
    let (_, after) = rule.split_once("/svc-").expect("a plain Service");
    after[..6].parse().unwrap()
}
