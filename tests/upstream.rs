//! Which of our tests pin what kube-proxy's own pin, as tables whose every name is looked up.
//!
//! The tables lie in the folder of this name. They hold all tests of kube-proxy v1.37 that concern
//! mode iptables, by their file, and beyond them what no test of upstream covers:
//!
//! ```text
//! [pkg/proxy/topology_test.go] 2                   a section, and how many entries it has
//! TestCategorizeEndpoints                          an entry, here a test of kube-proxy
//!     src/tests/select/table.rs one another        tests of ours by their file
//!     tests/scenarios zone_hints node_hints        scenarios
//!     tests/packets/topology.tbl zone              Services of a table of packets
//!     but what is otherwise here, and why
//! TestIPPart
//!     - why there is nothing to pin here
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const IPTABLES: &str = include_str!("upstream/iptables.txt");
const PROXY: &str = include_str!("upstream/proxy.txt");
const APP: &str = include_str!("upstream/app.txt");
const FURTHER: &str = include_str!("upstream/further.txt");

/// What a table says of one test or behaviour.
#[derive(Debug, Default)]
struct Entry {
    name: String,
    /// What is named, behind the file it is in.
    pins: Vec<(String, String)>,
    /// Something is otherwise here, and why is said.
    differs: bool,
    /// Why nothing is named.
    has_reason: bool,
}

#[derive(Debug)]
struct Section {
    name: String,
    count: usize,
    entries: Vec<Entry>,
}

/// What is wrong with a table, a line each.
type Complaints = Vec<String>;

fn read(table: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for line in table.lines() {
        let odd = || format!("`{line}` is neither section nor entry nor line of an entry");
        let section = sections.last_mut();
        if line.is_empty() || line.starts_with('#') {
        } else if let Some(heading) = line.strip_prefix('[') {
            let (name, count) = heading.split_once("] ").ok_or_else(odd)?;
            sections.push(Section {
                name: name.to_owned(),
                count: count.parse().map_err(|_| odd())?,
                entries: Vec::new(),
            });
        } else if let Some(line) = line.strip_prefix("    ") {
            let entry = section.and_then(|section| section.entries.last_mut());
            entry.ok_or_else(odd)?.add(line).ok_or_else(odd)?;
        } else {
            let name = line.to_owned();
            section.ok_or_else(odd)?.entries.push(Entry {
                name,
                ..Entry::default()
            });
        }
    }
    Ok(sections)
}

impl Entry {
    /// Takes a line of it in; `None`: it names a file and nothing in it.
    fn add(&mut self, line: &str) -> Option<()> {
        let (first, rest) = line.split_once(' ')?;
        match first {
            "but" => self.differs = true,
            "-" => self.has_reason = true,
            file => {
                let names = rest.split(' ');
                let pins = names.map(|name| (file.to_owned(), name.to_owned()));
                self.pins.extend(pins);
            }
        }
        Some(())
    }

    /// Tests, or a reason why there are none; only tests can differ in something.
    fn is_whole(&self) -> bool {
        self.pins.is_empty() == self.has_reason && !(self.has_reason && self.differs)
    }
}

/// What can be named in the files of the project, by file.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, BTreeSet<String>>);

impl Known {
    fn has(&mut self, file: &str, name: &str) -> bool {
        let names = self.0.entry(file.to_owned());
        names.or_insert_with(|| names_in(file)).contains(name)
    }
}

fn names_in(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if let Ok(folder) = fs::read_dir(&path) {
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let scenarios = names.filter_map(|name| Some(name.strip_suffix(".scn")?.to_owned()));
        return scenarios.collect();
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    if path.extension().is_some_and(|kind| kind == "rs") {
        tests_in(&text)
    } else {
        let services = text
            .lines()
            .filter_map(|line| line.strip_prefix("service "));
        let names = services.filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    }
}

/// The functions of a file that are run as tests, whatever stands between the attribute and them,
/// or on both backends.
fn tests_in(text: &str) -> BTreeSet<String> {
    let (mut is_test, mut names) = (false, BTreeSet::new());
    for line in text.lines().map(str::trim) {
        if ["#[test]", "#[tokio::test"]
            .iter()
            .any(|mark| line.starts_with(mark))
        {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if let Some(arguments) = line.strip_prefix("on_both_backends!(") {
            let (_, name) = arguments.split_once(", ").unwrap();
            names.insert(name.trim_end_matches(");").to_owned());
        } else if let Some((_, after)) = line.split_once("fn ") {
            if is_test {
                let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
                names.insert(after.get(..end.unwrap_or(after.len())).unwrap().to_owned());
            }
            is_test = false;
        }
    }
    names
}

fn complaints(sections: &[Section]) -> Complaints {
    let (mut complaints, mut known) = (Vec::new(), Known::default());
    if !sections.is_sorted_by_key(|section| &section.name) {
        complaints.push("sections are not sorted".to_owned());
    }
    for Section {
        name: of,
        count,
        entries,
    } in sections
    {
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        if (entries.len(), names.len()) != (*count, *count) {
            let (lines, different) = (entries.len(), names.len());
            complaints.push(format!(
                "{of}: {lines} entries, {different} of them different"
            ));
        }
        for entry in entries {
            if !entry.is_whole() {
                let name = &entry.name;
                complaints.push(format!(
                    "{of}: `{name}` has both tests and a reason, or neither"
                ));
            }
            for (file, name) in &entry.pins {
                if !known.has(file, name) {
                    complaints.push(format!("{of}: no `{name}` in {file}"));
                }
            }
        }
    }
    complaints
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    all: usize,
    mirrored: usize,
    /// How many of those that are mirrored are in a part otherwise here.
    differing: usize,
}

/// Nothing is wrong with the tables; counts their entries.
#[track_caller]
fn hold(tables: &[&str]) -> Tally {
    let mut tally = Tally::default();
    for table in tables {
        let sections = read(table).unwrap();
        let complaints = complaints(&sections);
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
        for entry in sections.iter().flat_map(|section| &section.entries) {
            tally.all += 1;
            tally.mirrored += usize::from(!entry.has_reason);
            tally.differing += usize::from(entry.differs);
        }
    }
    tally
}

#[test]
fn tests_of_kube_proxy_are_mirrored() {
    let Tally {
        all,
        mirrored,
        differing,
    } = hold(&[IPTABLES, PROXY, APP]);
    let rest = all - mirrored;
    println!(
        "{mirrored} of {all} upstream tests mirrored, {differing} of these with a difference that is \
         said; {rest} do not apply"
    );
    // As many as there are in v1.37.2.
    assert_eq!(all, 175);
}

#[test]
fn what_nobody_tests_upstream_is_pinned() {
    let Tally { all, mirrored, .. } = hold(&[FURTHER]);
    println!("{mirrored} of {all} further behaviours pinned");
    assert_eq!(all, 9 + 20 + 4 + 34);
}
