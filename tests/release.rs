//! The files of a release: two runs make the same bytes without a network, and `--verify` reports
//! each kind of damage. Workflows, changelog and chart agree with it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::artifacts::{self, ARCH};
use crate::support::needs;
use crate::support::process::run;
use crate::support::program::Ran;
use serde_json::{Value, json};
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

fn script() -> PathBuf {
    Path::new(ROOT).join("deploy/release.sh")
}

/// Makes a release of the static binaries; each shell command before it changes the environment.
fn make(folder: &Path, before: &str) {
    let mut command = Command::new("unshare");
    // A namespace without any interface that is up.
    command.args(["--net", "sh", "-c"]);
    command.arg(format!(
        "{before}exec \"$0\" --profile quickstart --output \"$1\""
    ));
    command.arg(script()).arg(folder);
    // Debian's mirrors may have deleted a package, and tests/run.sh has taken a newer one.
    command.env("ALLOW_NEWER_PACKAGES", "yes");
    run(command.env("STATIC_BINARIES", artifacts::path("bin")));
}

/// Returns the manifest for krew of the archives in a folder.
fn krew(folder: &Path, source: &str) -> String {
    let mut command = Command::new(Path::new(ROOT).join("deploy/release/krew.sh"));
    run(command.arg(folder).args([VERSION, source]))
}

fn verify(folder: &Path) -> Output {
    let mut command = Command::new(script());
    let output = command.arg("--verify").arg("--output").arg(folder).output();
    output.unwrap()
}

/// Names and contents of the files of a release.
type ReleaseFiles = BTreeMap<String, Vec<u8>>;

/// Returns the files in a folder.
fn contents(folder: &Path) -> ReleaseFiles {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{name}");
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// A complete release in a folder of its own, to be damaged.
struct Damaged {
    folder: TempDir,
}

impl Damaged {
    fn of(set: &ReleaseFiles) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in set {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self { folder }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder
            .path()
            .join(format!("deltaproxy-{VERSION}-{suffix}"))
    }

    /// Runs a shell command in the unpacked tar file, and packs it again. The manifest for krew is
    /// that of the result.
    fn repack(&self, suffix: &str, edit: &str) {
        let mut command = Command::new("sh");
        let script = "set -eu; work=$(mktemp -d); trap 'rm -rf \"$work\"' EXIT; export TOP=$PWD
            tar -xaf \"$1\" -C \"$work\"; (cd \"$work\"; eval \"$2\"); tar -caf \"$1\" -C \"$work\" .";
        // The archive has a folder at its top, the layout of the image has none.
        let script = match suffix {
            "image.tar" => script.to_owned(),
            _ => script
                .replace("cd \"$work\";", "cd \"$work\"/*;")
                .replace("\"$work\" .", "\"$work\" $(ls \"$work\")"),
        };
        command
            .args(["-c", &script, "sh"])
            .arg(self.path(suffix))
            .arg(edit);
        run(&mut command);
        if suffix != "image.tar" {
            let manifest = krew(self.folder.path(), "https://example.com/deltaproxy");
            fs::write(self.path("krew.yaml"), manifest).unwrap();
        }
    }

    /// Writes the checksums again, so that damage is found by what is in the files.
    fn sum(&self) {
        let mut command = Command::new("sh");
        command.args(["-c", "sha256sum deltaproxy-* >SHA256SUMS"]);
        run(command.current_dir(self.folder.path()));
    }

    #[track_caller]
    fn expect(&self, mistakes: &[&str]) {
        let output = verify(self.folder.path());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let prefix = format!("deltaproxy-{VERSION}-");
        for mistake in mistakes {
            let line = format!("release.sh: {}", mistake.replace('@', &prefix));
            assert!(
                lines.iter().any(|found| found.starts_with(&line)),
                "{line}\n{text}"
            );
        }
        // The last line counts them.
        assert_eq!(lines.len(), mistakes.len() + 1, "{text}");
    }
}

fn files_are_checked(set: &ReleaseFiles) {
    let damaged = Damaged::of(set);
    let path = damaged.path("linux-arm64.tar.gz");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    damaged.expect(&["checksum differs: @linux-arm64.tar.gz"]);

    let damaged = Damaged::of(set);
    let path = damaged.path("krew.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("sha256: ", "sha256: 0", 1)).unwrap();
    damaged.sum();
    damaged.expect(&["@krew.yaml: is not that of the archives"]);

    let damaged = Damaged::of(set);
    fs::remove_file(damaged.path("linux-amd64.cdx.json")).unwrap();
    damaged.expect(&["missing file: @linux-amd64.cdx.json"]);

    let damaged = Damaged::of(set);
    fs::write(damaged.path("x"), "x").unwrap();
    damaged.expect(&["file that is not part of a release: @x"]);
    damaged.sum();
    damaged.expect(&[
        "file that is not part of a release: @x",
        "SHA256SUMS: listed and expected files differ: @x",
    ]);
}

fn archives_are_checked(set: &ReleaseFiles) {
    let damaged = Damaged::of(set);
    damaged.repack(
        "linux-amd64.tar.gz",
        "rm share/man/man1/deltaproxy-run.1; : >share/doc/deltaproxy/musl.txt; echo >x",
    );
    damaged.sum();
    damaged.expect(&[
        "@linux-amd64.tar.gz: missing: share/man/man1/deltaproxy-run.1",
        "@linux-amd64.tar.gz: unexpected: x",
        "@linux-amd64.tar.gz: empty: share/doc/deltaproxy/musl.txt",
    ]);

    // A program of another architecture, which neither the bill of materials nor the image has.
    // Only its header says so: a real one may be made of other crates.
    let damaged = Damaged::of(set);
    let (other, machine, wrong_machine) = if ARCH == "amd64" {
        ("arm64", "aarch64", r"\076")
    } else {
        ("amd64", "x86_64", r"\267")
    };
    let patch = format!(
        "printf '{wrong_machine}' | dd of=bin/deltaproxy bs=1 seek=18 conv=notrunc status=none"
    );
    damaged.repack(&format!("linux-{other}.tar.gz"), &patch);
    damaged.sum();
    damaged.expect(&[
        &format!("@linux-{other}.tar.gz: bin/deltaproxy is not a program for {machine}"),
        &format!("@linux-{other}.cdx.json: describes another binary"),
        &format!("@image.tar: the program for {other} is not that of the archive"),
    ]);
}

fn crates_are_checked(set: &ReleaseFiles) {
    let damaged = Damaged::of(set);
    let path = damaged.path("linux-amd64.cdx.json");
    let mut sbom: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let crates = sbom["components"].as_array_mut().unwrap();
    crates.retain(|part| part["name"] != "hyper");
    let found = crates.iter_mut().find(|part| part["name"] == "serde_json");
    found.unwrap()["hashes"][0]["content"] = "0".repeat(64).into();
    fs::write(&path, sbom.to_string()).unwrap();
    damaged.repack(
        "linux-amd64.tar.gz",
        "sed -i '/^==== nix /d' share/doc/deltaproxy/third-party.txt",
    );
    damaged.sum();
    damaged.expect(&[
        "@linux-amd64.cdx.json: missing crate: hyper ",
        "@linux-amd64.cdx.json: missing crate, whose path is in the binary: hyper ",
        "@linux-amd64.cdx.json: missing crate: serde_json ",
        "@linux-amd64.cdx.json: not linked or with another checksum: serde_json ",
        "third-party.txt: no license of the crate nix ",
    ]);
}

fn the_image_is_checked(set: &ReleaseFiles) {
    let damaged = Damaged::of(set);
    // A manifest or configuration, which is as readable as before.
    let edit = "echo >>$(ls -S blobs/sha256/* | tail -n 1)";
    damaged.repack("image.tar", edit);
    let digest = damaged.path("image.digest");
    let text = fs::read_to_string(&digest).unwrap();
    fs::write(&digest, text.replace("sha256:", "sha256:0")).unwrap();
    damaged.sum();
    damaged.expect(&["@image.tar: blob ", "@image.digest: the image has the tag"]);
}

/// One test for all that wants a complete release: making it takes long.
#[test]
fn releases_are_repeatable_and_verified() {
    needs!(StaticBinaries);
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    make(&first, "");
    let elsewhere = folder.path().join("tmp");
    fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.display();
    make(
        &second,
        &format!("umask 077; export TZ=Asia/Kathmandu LC_ALL=C.UTF-8 TMPDIR={elsewhere}; "),
    );
    let set = contents(&first);
    for (name, bytes) in contents(&second) {
        assert!(set.get(&name) == Some(&bytes), "{name} differs");
    }
    // For each architecture an archive and a bill of materials, two files for the image, one for
    // krew, checksums.
    assert_eq!(set.len(), 8);
    let output = verify(&first);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");

    files_are_checked(&set);
    archives_are_checked(&set);
    crates_are_checked(&set);
    the_image_is_checked(&set);
    binaries_are_compared(&first);
}

/// Compares the release with binaries that are there instead of being compiled.
fn rebuild(release: &Path, binaries: &Path) -> Output {
    let mut command = Command::new(script());
    command.args(["--verify", "--rebuild"]);
    command.arg("--output").arg(release);
    command.env("STATIC_BINARIES", binaries).output().unwrap()
}

fn binaries_are_compared(release: &Path) {
    let output = rebuild(release, &artifacts::path("bin"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.ends_with("are what is compiled here\n"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    for arch in ["amd64", "arm64"] {
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(artifacts::path("bin").join(arch));
        run(copy.arg(folder.path()));
    }
    let path = folder.path().join("arm64/deltaproxy");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = rebuild(release, folder.path());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let expected = format!(
        "release.sh: deltaproxy-{VERSION}-linux-arm64.tar.gz: bin/deltaproxy differs from what is \
         compiled here\nrelease.sh: binaries of {} that differ: 1\n",
        release.display()
    );
    assert_eq!(text, expected);
}

#[test]
fn rebuilding_is_part_of_verifying() {
    let output = Ran::of(Command::new(script()).arg("--rebuild"));
    output.fails(1, &["release.sh: --rebuild requires --verify\n"]);
}

/// Krew itself is not run: this has what it reads.
#[test]
fn the_manifest_for_krew_installs_what_the_archives_have() {
    let folder = tempfile::tempdir().unwrap();
    let mut sums = BTreeMap::new();
    for arch in ["amd64", "arm64"] {
        let name = format!("deltaproxy-{VERSION}-linux-{arch}.tar.gz");
        fs::write(folder.path().join(&name), arch).unwrap();
        let mut sum = Command::new("sha256sum");
        let printed = run(sum.arg(&name).current_dir(folder.path()));
        sums.insert(arch, printed.split(' ').next().unwrap().to_owned());
    }
    let manifest = krew(folder.path(), "https://example.com/x");
    let manifest: Value = serde_saphyr::from_str(&manifest).unwrap();
    assert_eq!(manifest["metadata"]["name"], "deltaproxy");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], VERSION);
    // The index of krew has a line of this length for it.
    assert!(spec["shortDescription"].as_str().unwrap().len() <= 50);
    let platforms = spec["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), sums.len());
    for platform in platforms {
        let labels = &platform["selector"]["matchLabels"];
        let arch = labels["arch"].as_str().unwrap();
        assert_eq!(
            (&labels["os"], &platform["sha256"]),
            (&"linux".into(), &sums[arch].clone().into())
        );
        let name = format!("deltaproxy-{VERSION}-linux-{arch}");
        assert_eq!(
            platform["uri"],
            format!("https://example.com/x/releases/download/{VERSION}/{name}.tar.gz")
        );
        assert_eq!(platform["bin"], "deltaproxy");
        // A file is moved into an existing folder, or else renamed.
        assert_eq!(
            platform["files"],
            json!([
                {"from": format!("{name}/bin/deltaproxy"), "to": "."},
                {"from": format!("{name}/share/doc/deltaproxy/*"), "to": "doc"},
            ])
        );
    }
}

#[test]
fn a_tag_must_be_the_version() {
    let output = Ran::of(Command::new(script()).args(["--tag", "v99.0.0"]));
    let expected =
        format!("release.sh: --tag: `v99.0.0` is not the version of Cargo.toml, {VERSION}\n");
    output.fails(1, &[&expected]);
}

#[test]
fn the_version_has_a_section_in_the_changelog_and_a_chart() {
    let read = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let changelog = read("deploy/CHANGELOG.md");
    let title = format!("## {VERSION}");
    assert!(changelog.lines().any(|line| line == title), "{title}");
    let chart = read("deploy/helm/deltaproxy/Chart.yaml");
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    assert_eq!(chart["appVersion"], VERSION);
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

/// Returns the script that a step of a workflow calls, if it calls one.
fn called_script(command: &str) -> Option<&str> {
    command
        .split_whitespace()
        .find(|word| word.starts_with("./"))
}

#[test]
fn workflows_call_scripts_and_pinned_actions() {
    let folder = Path::new(ROOT).join(".github/workflows");
    let mut called = Vec::new();
    for name in ["ci.yml", "next-minor.yml", "release.yml"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let workflow: Value = serde_saphyr::from_str(&text).unwrap();
        let jobs = workflow["jobs"].as_object().unwrap().values();
        for step in jobs.flat_map(|job| job["steps"].as_array().unwrap()) {
            if let Some(action) = step["uses"].as_str() {
                let (_, commit) = action.split_once('@').unwrap();
                let is_commit = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
                assert!(is_commit, "{name}: {action}");
            } else if let Some(script) = called_script(step["run"].as_str().unwrap()) {
                let path = Path::new(ROOT).join(script);
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(mode & 0o111, 0o111, "{name}: {script}");
                called.push(script.to_owned());
            }
        }
    }
    called.dedup();
    let expected = ["./.ci/run", "./tests/next-minor.sh", "./deploy/release.sh"];
    assert_eq!(called, expected);
}
