//! Checks that the support matrix is what the recorded runs give, and records runs.
//!
//! `tests/soak.sh --kube-proxy 1.33 --api-server 1.34` runs a release and writes its file in
//! `tests/support_matrix`. `UPDATE_GOLDEN=1` writes the tables of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::conformance::releases::{ALL, FOLLOWED, Release, ReleaseDifference};
use crate::conformance::run::{FeatureTally, Tally};
use crate::support::{Need, machine_has};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = "deploy/docs/support-matrix.md";

/// Oldest minor release of kube-proxy that the page has.
const OLDEST: u32 = 31;

/// Minor releases of kube-proxy that have a result.
const PROXIES: [u32; 7] = [31, 32, 33, 34, 35, 36, 37];

/// Minor releases of the API server that have a result.
const SERVERS: [u32; 3] = [33, 35, 37];

/// Result of one release of kube-proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ProxyRun {
    version: String,
    /// Day of the run.
    date: String,
    /// The server that both proxies watched.
    api_server: String,
    feature_steps: usize,
    random_steps: usize,
    /// Random steps that changed kube-proxy's rules.
    visible_steps: usize,
    /// Pairs of rulesets that were compared.
    compared: usize,
    /// Feature steps in which rules of this release differ, by the name of the difference.
    differences: BTreeMap<String, usize>,
}

/// Result of one release of the API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ServerRun {
    version: String,
    /// Day of the run.
    date: String,
    /// End-to-end tests that passed.
    tests: usize,
}

/// All results, by minor release.
#[derive(Debug, Default, Clone)]
struct Matrix {
    proxies: BTreeMap<u32, ProxyRun>,
    servers: BTreeMap<u32, ServerRun>,
}

fn path(program: &str, minor: u32) -> PathBuf {
    format!("{ROOT}/tests/support_matrix/{program}-1.{minor}.json").into()
}

fn record(program: &str, minor: u32, run: &impl Serialize) {
    let text = serde_json::to_string_pretty(run).unwrap();
    fs::write(path(program, minor), text + "\n").unwrap();
}

/// Today, which `tests/soak.sh` knows.
fn today() -> String {
    std::env::var("MATRIX_DATE").unwrap_or_else(|_| panic!("MATRIX_DATE is not set"))
}

/// Writes the result of a run against one release of kube-proxy.
pub(crate) fn record_kube_proxy(features: &FeatureTally, random: &Tally) {
    let release = Release::of("kube-proxy");
    let names = features.appeared.0.iter();
    let run = ProxyRun {
        version: release.version,
        date: today(),
        api_server: Release::of("kube-apiserver").version,
        feature_steps: features.steps,
        random_steps: random.steps,
        visible_steps: random.visible,
        compared: features.compared + random.compared,
        differences: names
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
    };
    record("kube-proxy", release.minor, &run);
}

/// Runs the end-to-end tests on the API server of one release.
///
/// `tests/soak.sh --api-server 1.33` runs it.
#[test]
#[ignore = "takes minutes, and records its result"]
fn end_to_end_tests_of_an_api_server() {
    assert!(machine_has(Need::Cluster));
    let release = Release::of("kube-apiserver");
    let mut tests = Command::new(std::env::current_exe().unwrap());
    let output = tests.arg("end_to_end::").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let run = ServerRun {
        version: release.version,
        date: today(),
        tests: passed(&text).unwrap_or_else(|| panic!("{text}")),
    };
    assert!(run.tests > 0, "{text}");
    record("kube-apiserver", release.minor, &run);
}

/// Reads the number of `test result: ok. 7 passed; 0 failed; ...`.
fn passed(text: &str) -> Option<usize> {
    let (_, result) = text.split_once("test result: ok. ")?;
    result.split_once(" passed")?.0.parse().ok()
}

/// Reads the results of all releases of a program that have one.
fn results<T: DeserializeOwned>(program: &str) -> BTreeMap<u32, T> {
    let texts = (OLDEST..=FOLLOWED)
        .filter_map(|minor| Some((minor, fs::read_to_string(path(program, minor)).ok()?)));
    texts
        .map(|(minor, text)| (minor, serde_json::from_str(&text).unwrap()))
        .collect()
}

impl Matrix {
    fn read() -> Self {
        Self {
            proxies: results("kube-proxy"),
            servers: results("kube-apiserver"),
        }
    }

    /// Checks that runs are of the versions that are built, and complete.
    fn check(&self, versions: &BTreeMap<u32, String>) -> Result<(), String> {
        for minor in PROXIES {
            let run = self.proxies.get(&minor);
            let run = run.ok_or_else(|| format!("kube-proxy 1.{minor} has no result"))?;
            let release = Release::parse(&format!("Kubernetes {}", run.version));
            let release = release.filter(|release| release.minor == minor);
            let release = release.ok_or_else(|| format!("1.{minor} has {}", run.version))?;
            let listed: Vec<&str> = run.differences.keys().map(String::as_str).collect();
            let mut expected: Vec<&str> = release.differences().map(|d| d.name).collect();
            expected.sort_unstable();
            if listed != expected {
                return Err(format!("1.{minor} has {listed:?}, not {expected:?}"));
            }
            if run.random_steps < 200 || run.feature_steps == 0 {
                return Err(format!("1.{minor} has too few steps: {run:?}"));
            }
        }
        let mut servers = SERVERS.iter();
        if let Some(minor) = servers.find(|minor| !self.servers.contains_key(minor)) {
            return Err(format!("kube-apiserver 1.{minor} has no result"));
        }
        let versions_of_proxies = self
            .proxies
            .iter()
            .map(|(minor, run)| (minor, &run.version));
        let versions_of_servers = self
            .servers
            .iter()
            .map(|(minor, run)| (minor, &run.version));
        for (minor, version) in versions_of_proxies.chain(versions_of_servers) {
            if versions.get(minor) != Some(version) {
                return Err(format!("{version} is not the version that is built"));
            }
        }
        Ok(())
    }

    /// Returns the page with the tables and lists that follow from runs and sources. All else is
    /// written by hand.
    fn page(&self, committed: &str, substitutes: &str) -> String {
        let proxies = (OLDEST..=FOLLOWED).rev().map(|minor| self.proxy_row(minor));
        let servers = self.servers.iter().rev().map(|(minor, run)| {
            let (version, date, tests) = (&run.version, &run.date, run.tests);
            format!("| 1.{minor} | {version} | {date} | {tests} | 0 |\n")
        });
        let parts = [
            ("\n|---|---|---|---|---|---|---|---|\n", proxies.collect()),
            (
                "\nhistories avoid these cases.\n\n",
                ALL.map(entry).concat(),
            ),
            ("\n|---|---|---|---|---|\n", servers.collect()),
            ("none of them writes rules:\n\n", substitutes.to_owned()),
        ];
        parts
            .into_iter()
            .fold(committed.to_owned(), |page, (start, lines)| {
                with_lines_behind(&page, start, &lines)
            })
    }

    fn proxy_row(&self, minor: u32) -> String {
        let Some(run) = self.proxies.get(&minor) else {
            return format!("| 1.{minor} | | not run yet | | | | | |\n");
        };
        let names = run.differences.keys().map(|name| format!("`{name}`"));
        let names: Vec<_> = names.collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        format!(
            "| 1.{minor} | {} | {} | {} | {} ({}) | {} | 0 | {names} |\n",
            run.version,
            run.date,
            run.feature_steps,
            run.random_steps,
            run.visible_steps,
            run.compared,
        )
    }
}

/// Replaces the lines behind a text, up to the next blank one.
fn with_lines_behind(page: &str, start: &str, lines: &str) -> String {
    let (before, behind) = page
        .split_once(start)
        .unwrap_or_else(|| panic!("no `{start}`"));
    let after = behind.split_once("\n\n").map(|(_, after)| after);
    let after = after.map_or(String::new(), |after| format!("\n{after}"));
    format!("{before}{start}{lines}{after}")
}

fn entry(difference: &ReleaseDifference) -> String {
    let ReleaseDifference {
        name, last, text, ..
    } = difference;
    format!("- `{name}`, 1.{OLDEST} to 1.{last}: {text}\n")
}

/// Versions that are built, by minor release, and what the page says about substitutes.
fn built() -> (BTreeMap<u32, String>, String) {
    let folder = format!("{ROOT}/tests/support/kube");
    let minors = fs::read_to_string(format!("{folder}/minors.txt")).unwrap();
    let (mut versions, mut substitutes) = (BTreeMap::new(), String::new());
    for line in minors.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let minor = words[0].strip_prefix("1.").unwrap().parse().unwrap();
        versions.insert(minor, words[1].to_owned());
        if words.len() > 3 {
            let modules: Vec<_> = words[3..]
                .iter()
                .map(|word| format!("`k8s.io/{word}`"))
                .collect();
            let _ = writeln!(substitutes, "- {}: {}", words[0], modules.join(", "));
        }
    }
    let module = fs::read_to_string(format!("{folder}/go.mod")).unwrap();
    let version = module
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    versions.insert(FOLLOWED, version.unwrap().to_owned());
    (versions, substitutes)
}

#[test]
fn the_page_is_what_the_recorded_runs_give() {
    let (versions, substitutes) = built();
    let matrix = Matrix::read();
    matrix.check(&versions).unwrap();
    let file = format!("{ROOT}/{PAGE}");
    let committed = fs::read_to_string(&file).unwrap();
    let page = matrix.page(&committed, &substitutes);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &page).unwrap();
        return;
    }
    assert_eq!(page, committed, "UPDATE_GOLDEN=1 writes {PAGE}");
}
