//! Scenarios: a cluster, its edits, and what the rules then have to be, as text files that a
//! reader can judge without knowing our API.
//!
//! Everything takes the way it takes in production: objects through `ingest`, changes through the
//! tracker, syncs through a `Syncer`. Below it lies the fake kernel and, if asked for, a real one
//! that must agree with it after every step.
//!
//! # Language
//!
//! One statement a line; words with blanks are quoted; a block is indented below its statement.
//!
//! ```text
//! options    family=IPv6 cluster-cidr=none masquerade-all ...      (see options.rs)
//! node       zone=z ip=192.168.0.2 pod-cidr=10.180.0.0/24          this node, always `node-a`
//! machine    192.168.0.2 10.0.0.1                                  addresses of its interfaces
//! kernel     + block, or FILE of tests/golden                      payload of another program
//! recorded   FILE...                                               our rules are kube-proxy's
//! service    ns1/svc1 cluster=172.30.0.41 port=p80:80/tcp:3001 ... (see objects.rs)
//! endpoints  ns1/svc1 slice=a port=p80:80 10.180.0.1@node-a,not-ready ...
//! delete     service ns1/svc1 | endpoints ns1/svc1 [slice=a]
//! fault      restore | save | counter                              the next one fails
//! wait       1h                                                    the clock goes on
//! slow       36s                                                   so long each sync takes
//! sync       full (first) | partial | nothing | partial failed, then full (...)
//! payload    + block                                               what was sent, exactly
//! rules      nat + block of `+ -A C ...`, `- -A C ...`, `+ :C`, `- :C`
//! chain      nat NAME + block                                      all rules of it, in order
//! packet     SOURCE -> DEST:PORT/udp [via IF] [seen SEP(..)]  to EP 1/3, EP masqueraded | drop
//! total      filter=4 nat=5                                        rules of ours
//! no-local   internal=1 external=0             ports without the local endpoint they need
//! ```
//!
//! `SVC(ns1/svc1:p80)`, `SVL(..)`, `EXT(..)`, `FW(..)` and `SEP(ns1/svc1:p80,10.180.0.1:80)` stand
//! for chain names, `/udp` behind the port for another protocol than tcp.

#[path = "scenario/both.rs"]
mod both;
#[path = "scenario/names.rs"]
mod names;
#[path = "scenario/objects.rs"]
mod objects;
#[path = "scenario/options.rs"]
mod options;
#[path = "scenario/packet.rs"]
mod packet;
#[path = "scenario/recorded.rs"]
mod recorded;
#[path = "scenario/text.rs"]
mod text;
#[path = "scenario/world.rs"]
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use deltaproxy::testing::rules::Backend;

pub(crate) use both::Both;
pub(crate) use options::Options;
use text::Statement;
pub(crate) use world::World;

/// A scenario file, read but not run.
pub(crate) struct Scenario {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What its `options` statements say.
    pub(crate) options: Options,
    statements: Vec<Statement>,
}

impl Scenario {
    /// All scenarios, sorted by name; those whose name contains `SCENARIO` if that is set.
    pub(crate) fn all() -> Result<Vec<Self>, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
        let entries = fs::read_dir(&folder).map_err(|error| error.to_string())?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let wanted = std::env::var_os("SCENARIO").unwrap_or_default();
        paths.retain(|path| path.to_string_lossy().contains(&*wanted.to_string_lossy()));
        paths.sort();
        paths.into_iter().map(Self::read).collect()
    }

    fn read(path: PathBuf) -> Result<Self, String> {
        let content = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let statements = text::read(&content).map_err(|error| at(&path, error))?;
        let options = Options::read(&statements).map_err(|error| at(&path, error))?;
        Ok(Self {
            path,
            options,
            statements,
        })
    }

    /// Runs it to the end or to the first thing that is not as it says.
    pub(crate) fn run(&self) -> Result<(), String> {
        self.run_on(Backend::Nft, Both::default())
    }

    /// The same with payloads for one backend, on the kernels given.
    pub(crate) fn run_on(&self, backend: Backend, below: Both) -> Result<(), String> {
        let options = self.options.clone().with_backend(backend);
        let mut world = World::new(options, below).map_err(|e| at(&self.path, (1, e)))?;
        for statement in &self.statements {
            let done = world.obey(statement);
            done.map_err(|error| at(&self.path, (statement.line, error)))?;
        }
        if world.updates.is_empty() {
            return Ok(());
        }
        let content = fs::read_to_string(&self.path).map_err(|error| error.to_string())?;
        fs::write(&self.path, text::replace(&content, &world.updates))
            .map_err(|error| error.to_string())
    }
}

fn at(path: &Path, (line, error): (usize, String)) -> String {
    format!("{}:{line}: {error}\n", path.display())
}
