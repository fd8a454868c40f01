//! The Dockerfile, which needs a registry to be built: what it says agrees with the scripts, and
//! its own command writes the files of the image that is built without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::container::{Bundle, tag};
use super::contents::{blob, files, json_of};
use crate::support::artifacts::{self, ARCH};
use crate::support::needs;
use crate::support::process::run;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Variables that a FROM has without an ARG.
const PREDEFINED: [&str; 2] = ["BUILDPLATFORM", "TARGETPLATFORM"];

/// Packages in every image of Rust, which is made of Debian's compilers.
const IN_BUILDER: [&str; 5] = ["rust", "dpkg", "tar", "gzip", "coreutils"];

/// A line of the Dockerfile, continued lines included.
struct Instruction {
    keyword: String,
    text: String,
}

/// Returns the text of a file next to the Dockerfile.
fn text(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("deploy/image").join(name)).unwrap()
}

/// Returns the names that are no part of the context.
fn ignored() -> Vec<String> {
    let text = text("Dockerfile.dockerignore");
    text.lines().map(str::to_owned).collect()
}

fn instructions() -> Vec<Instruction> {
    let text = text("Dockerfile");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (keyword, text) = line.split_once(' ').unwrap();
            Instruction {
                keyword: keyword.to_owned(),
                text: text.to_owned(),
            }
        })
        .collect()
}

/// Returns the instructions before the first FROM, then those of each stage with its FROM.
fn stages() -> Vec<Vec<Instruction>> {
    let mut stages = vec![Vec::new()];
    for instruction in instructions() {
        if instruction.keyword == "FROM" {
            stages.push(Vec::new());
        }
        stages.last_mut().unwrap().push(instruction);
    }
    stages
}

/// Returns the words of each instruction with this keyword.
fn all_of(keyword: &str) -> Vec<Vec<String>> {
    let found = instructions()
        .into_iter()
        .filter(|line| line.keyword == keyword);
    found
        .map(|line| line.text.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// Returns the names after each `$`, except those of `$(`.
fn variables(text: &str) -> BTreeSet<String> {
    let names = text.split('$').skip(1).map(|rest| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let rest = rest.trim_start_matches('{');
        rest.split(|c| !is_name(c)).next().unwrap().to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the name of an ARG, and its default.
fn argument(line: &Instruction) -> Option<(&str, &str)> {
    let is_argument = line.keyword == "ARG";
    is_argument.then(|| line.text.split_once('=').unwrap_or((&line.text, "")))
}

#[test]
fn every_variable_of_the_dockerfile_is_declared_and_used() {
    let stages = stages();
    let (before, stages) = stages.split_first().unwrap();
    let declared: BTreeMap<&str, &str> = before.iter().filter_map(argument).collect();
    assert!(declared.values().all(|default| !default.is_empty()));
    let images = stages.iter().flat_map(|stage| variables(&stage[0].text));
    let images: BTreeSet<String> = images.collect();
    let known = PREDEFINED.iter().chain(declared.keys());
    let known: BTreeSet<String> = known.map(|&name| name.to_owned()).collect();
    assert!(images.is_subset(&known), "{images:?}");
    assert!(declared.keys().all(|&name| images.contains(name)));

    assert_eq!(stages.len(), 2);
    for stage in stages {
        let mut declared = BTreeSet::new();
        let mut used = BTreeSet::new();
        for line in &stage[1..] {
            if let Some((name, _)) = argument(line) {
                declared.insert(name.to_owned());
            } else {
                used.extend(variables(&line.text));
                assert!(used.is_subset(&declared), "{}", line.text);
            }
        }
        assert_eq!(used, declared);
    }
}

#[test]
fn the_dockerfile_copies_files_that_exist() {
    let stages = all_of("FROM");
    let outputs: Vec<String> = all_of("RUN").concat();
    let mut sources = Vec::new();
    for words in all_of("COPY") {
        let (flags, paths): (Vec<String>, Vec<String>) =
            words.into_iter().partition(|word| word.starts_with("--"));
        let (_, copied) = paths.split_last().unwrap();
        match flags.iter().find_map(|flag| flag.strip_prefix("--from=")) {
            Some(stage) => {
                assert!(
                    stages
                        .iter()
                        .any(|words| words.ends_with(&["AS".into(), stage.into()]))
                );
                let folder = copied[0].trim_end_matches('/');
                assert!(outputs.iter().any(|word| word == folder), "{folder}");
            }
            None => sources.extend(copied.to_vec()),
        }
    }
    // All of it, so that each script finds its files; what is large and made is ignored.
    assert_eq!(sources, ["."]);
    for name in ignored() {
        assert!(
            [".cache", ".git", "target"].contains(&name.as_str()),
            "{name}"
        );
    }
    let is_script = |word: &&String| Path::new(word).extension() == Some("sh".as_ref());
    for script in outputs.iter().filter(is_script) {
        let mode = fs::metadata(Path::new(ROOT).join(script)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o111, 0o111, "{script}");
    }
}

#[test]
fn the_dockerfile_installs_the_programs_that_its_scripts_require() {
    let commands: Vec<String> = all_of("RUN").concat();
    for script in ["debian.sh", "binary.sh", "program.sh"] {
        let text = text(script).replace("\\\n", " ");
        let lines = text.lines().filter_map(|line| {
            let line = line.trim().strip_prefix("require_programs ")?;
            (!line.contains("apt-get:")).then_some(line)
        });
        for need in lines.flat_map(str::split_whitespace) {
            let (_, package) = need.trim_matches('"').split_once(':').unwrap();
            // The compiler's name depends on the architecture.
            let needed = match package {
                "gcc-${machine/_/-}-linux-gnu" => ["x86-64", "aarch64"]
                    .map(|machine| format!("gcc-{machine}-linux-gnu"))
                    .to_vec(),
                package if IN_BUILDER.contains(&package) => Vec::new(),
                package => vec![package.to_owned()],
            };
            for package in needed {
                assert!(commands.contains(&package), "{script}: {package}");
            }
        }
    }
}

#[test]
fn the_builder_has_a_version_of_rust_that_is_sufficient() {
    let lines = instructions();
    let builder = lines
        .iter()
        .filter_map(argument)
        .find(|(name, _)| *name == "BUILDER");
    let (_, tag) = builder.unwrap().1.rsplit_once(':').unwrap();
    let (version, suite) = tag.split_once('-').unwrap();
    let parsed = |version: &str| -> Vec<u32> {
        let parts = version.split('.').take(2);
        parts.map(|part| part.parse().unwrap()).collect()
    };
    assert!(
        parsed(version) >= parsed(env!("CARGO_PKG_RUST_VERSION")),
        "{version}"
    );
    // Locked packages are those of this release.
    assert!(
        text("debian.sh").contains(&format!("suite={suite}\n")),
        "{suite}"
    );
}

#[test]
fn the_dockerfile_configures_the_image_as_the_build_without_it() {
    needs!(Image);
    let index = json_of(&artifacts::path("oci/index.json"));
    let images = index["manifests"].as_array().unwrap();
    let name = format!("{}-{ARCH}", tag());
    let image = images
        .iter()
        .find(|image| image["annotations"]["org.opencontainers.image.ref.name"] == name);
    let manifest = json_of(&blob(&image.unwrap()["digest"]));
    let config = json_of(&blob(&manifest["config"]["digest"]))["config"].clone();

    let list =
        |keyword: &str| -> Value { serde_json::from_str(&all_of(keyword)[0].join(" ")).unwrap() };
    assert_eq!(list("ENTRYPOINT"), config["Entrypoint"]);
    assert_eq!(list("CMD"), config["Cmd"]);
    assert_eq!(json!(all_of("USER")[0][0]), config["User"]);
    let lines = instructions();
    let defaults: BTreeMap<&str, &str> = lines.iter().filter_map(argument).collect();
    for label in all_of("LABEL").concat() {
        let (name, value) = label.split_once('=').unwrap();
        let expected = config["Labels"][name].as_str().unwrap();
        let value = value.strip_prefix('$').map_or(value, |name| defaults[name]);
        // What a build knows from its arguments only.
        if !name.ends_with(".revision") {
            assert_eq!(value, expected, "{name}");
        }
    }
}

/// Copies what the Dockerfile copies, and lends it the packages, which it would fetch.
fn context(folder: &Path) {
    let mut copy = Command::new("sh");
    copy.args([
        "-c",
        "from=$1 to=$2; shift 2; tar -C \"$from\" \"$@\" -c . | tar -C \"$to\" -x",
        "sh",
    ]);
    copy.arg(ROOT).arg(folder);
    let names = ignored().into_iter();
    run(copy.args(names.map(|name| format!("--exclude=./{name}"))));
    let cache = folder.join(".cache/image");
    fs::create_dir_all(&cache).unwrap();
    symlink(artifacts::path("packages"), cache.join("packages")).unwrap();
}

/// Returns modes and targets of links, by their paths.
fn listed(root: &Path) -> BTreeMap<String, String> {
    let described = files(root)
        .into_iter()
        .filter(|(_, metadata)| !metadata.is_dir());
    described
        .map(|(path, metadata)| {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let target = fs::read_link(&path).map(|target| target.display().to_string());
            let mode = format!("{:o}", metadata.permissions().mode());
            (name, target.unwrap_or(mode))
        })
        .collect()
}

#[test]
fn the_command_of_the_dockerfile_writes_the_files_of_the_image() {
    needs!(Image, StaticBinaries);
    let commands = all_of("RUN");
    let command = commands
        .iter()
        .find(|words| words[0].ends_with("program.sh"));
    let folder = tempfile::tempdir().unwrap();
    let (output, copy) = (folder.path().join("image"), folder.path().join("context"));
    fs::create_dir(&copy).unwrap();
    context(&copy);
    // The only path outside of the context.
    let command = command.unwrap().join(" ");
    let command = command.replace(" /image", &format!(" {}", output.display()));
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).current_dir(&copy);
    shell
        .env("TARGETARCH", ARCH)
        .env("CARGO_NET_OFFLINE", "true");
    shell.env("ALLOW_NEWER_PACKAGES", "yes");
    run(shell.env("STATIC_BINARIES", artifacts::path("bin")));

    let mut expected = listed(&Bundle::unpack().root());
    let is_ours = |name: &str| {
        name.starts_with("usr/local/") || name.starts_with("usr/share/doc/deltaproxy/")
    };
    expected.retain(|name, _| is_ours(name));
    assert!(
        expected.contains_key("usr/local/bin/kube-proxy"),
        "{expected:?}"
    );
    assert_eq!(listed(&output), expected);
}
