//! Input that is cut off, incomplete, endless or no file at all: the commands say what is missing
//! and end.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::diff::Scene;
use crate::support::program::{PROGRAM, Ran, command};

/// Runs a shell script in a folder, with the program in `$D`.
fn shell(folder: &TempDir, script: &str) -> Ran {
    let mut command = command("sh", &["-c", script]);
    Ran::of(command.current_dir(folder.path()).env("D", PROGRAM))
}

/// A dump of both tables with one service port.
const FILTER: &str = "*filter\n:KUBE-FORWARD - [0:0]\n:KUBE-EXTERNAL-SERVICES - [0:0]\n-A \
                      KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"shop/web:http has no \
                      local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j \
                      DROP\nCOMMIT\n";
const NAT: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n-A KUBE-SERVICES -d \
                   10.96.0.1/32 -p tcp -m comment --comment \"shop/api:http cluster IP\" -m tcp \
                   --dport 80 -j KUBE-SVC-A\nCOMMIT\n";

/// Runs `services` on a dump. Returns code, stdout and stderr.
fn services(dump: &str, flags: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dump"), dump).unwrap();
    let output = shell(&folder, &format!("$D services --from-save dump {flags}"));
    let code = output.code.unwrap();
    (code, output.stdout, output.stderr)
}

#[test]
fn endpoints_without_the_nat_table_are_unknown() {
    let (code, rows, said) = services(FILTER, "--no-headers");
    assert_eq!(code, 0, "{said}");
    let cells: Vec<&str> = rows.split_whitespace().collect();
    assert_eq!(
        (cells.get(2), cells.last()),
        (Some(&"unknown"), Some(&"<unknown>")),
        "{rows}"
    );
    let (_, rows, _) = services(FILTER, "--no-headers -o wide");
    assert!(rows.contains(" <unknown>/Local   <unknown>   "), "{rows}");
    let (_, document, _) = services(FILTER, "-o json");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["familiesWithoutNat"], json!(["IPv4"]));
    let (_, document, _) = services(&format!("{FILTER}{NAT}"), "-o json");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["familiesWithoutNat"], json!([]));
}

const LEGACY: &str =
    "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n";

#[test]
fn rules_of_the_backend_legacy_are_in_documents_and_summaries() {
    let (_, document, _) = services(&format!("{LEGACY}{FILTER}{NAT}"), "-o json");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["familiesWithLegacyRules"], json!(["IPv4"]));
    let scene = Scene::new();
    let dump = fs::read_to_string(scene.path("ipv4")).unwrap();
    for (warning, summary, families) in [
        (
            LEGACY,
            "no differences; rules of the backend legacy not compared\n",
            json!(["IPv4"]),
        ),
        ("", "no differences\n", json!([])),
    ] {
        fs::write(scene.path("ipv4"), format!("{warning}{dump}")).unwrap();
        let args = ["diff", "--from-save", "ipv4", "--manifests", "before.yaml"];
        let said = scene.run(&args).stdout;
        assert!(said.starts_with(summary), "{said}");
        let said = scene.run(&[&args[..], &["-o", "json"]].concat()).stdout;
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["notCompared"]["familiesWithLegacyRules"], families);
    }
}

#[test]
fn entries_that_are_no_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let service = "kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    fs::create_dir(folder.path().join("m")).unwrap();
    fs::write(folder.path().join("m/a.yaml"), service).unwrap();
    let script = "mkfifo m/b.yaml; ln -s nowhere m/c.yaml; ln -s /dev/zero m/d.yaml; \
                  $D services --manifests m --no-headers";
    let output = shell(&folder, script);
    let (rows, said) = (output.stdout, output.stderr);
    assert_eq!(output.code, Some(2), "{said}");
    assert!(rows.contains("web"), "{rows}");
    for error in [
        "error: `m/b.yaml`: is neither a regular file nor a directory\n",
        "error: `m/c.yaml`: is a symbolic link to `nowhere`, which does not exist\n",
        "error: `m/d.yaml`: is neither a regular file nor a directory\n",
    ] {
        assert!(said.contains(error), "{said}");
    }
    // It is no object whose valid parts could be used.
    assert!(!said.contains("--lenient"), "{said}");
    let output = shell(&folder, "$D services --manifests nowhere");
    let said = &output.stderr;
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_pipe_is_read_if_a_program_writes_to_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dump"), format!("{FILTER}{NAT}")).unwrap();
    let script = "mkfifo p; (sleep 0.2; cat dump > p) & $D services --from-save p --no-headers";
    let output = shell(&folder, script);
    assert!(output.is_success(), "{output:#?}");
    assert_eq!(output.stdout.lines().count(), 2);
}
