//! `deltaproxy services` as its users meet it: rules in, tables and documents out.

use crate::support::program::{self, Ran};

const V4: &str = "--from-save=tests/golden/restore-v4-full.txt";
const V6: &str = "--from-save=tests/golden/restore-v6-full.txt";

fn run(args: &[&str]) -> Ran {
    program::run(&[&["services"], args].concat())
}

/// What it prints, with no word on stderr but the number of service ports.
#[track_caller]
fn shown(args: &[&str]) -> String {
    let output = run(args);
    let said = &output.stderr;
    let notes = said.lines().filter(|line| !is_summary(line)).count();
    assert!(output.is_success() && notes == 0, "{args:?}: {said}");
    output.stdout
}

/// Whether a line is the number of service ports, how many are not ok, and their source.
fn is_summary(line: &str) -> bool {
    line.contains("service port") && line.contains("ok, in ")
}

#[test]
fn documents_say_everything() {
    let json: serde_json::Value =
        serde_json::from_str(&shown(&[V4, V6, "-ojson", "ns1/lb"])).unwrap();
    let ports = json["servicePorts"].as_array().unwrap();
    assert_eq!(ports.len(), 1, "{json:#}");
    let port = &ports[0];
    assert_eq!(
        (
            &port["family"],
            &port["type"],
            &port["externalTrafficPolicy"]
        ),
        (&"IPv4".into(), &"LoadBalancer".into(), &"Local".into())
    );
    assert_eq!(port["endpoints"][0]["clusterShare"], "1/2");
    assert_eq!(port["endpoints"][0]["clusterRatio"], 0.5);
    assert_eq!(
        (&json["apiVersion"], &port["status"]),
        (&"deltaproxy/v1".into(), &"ok".into())
    );
    let yaml: serde_json::Value =
        serde_saphyr::from_str(&shown(&[V4, V6, "-oyaml", "ns1/lb"])).unwrap();
    assert_eq!(yaml, json);
}

/// A dump of a node without the lines that have a text in them, and with more chains.
fn damaged(part: &str, chains: &[&str]) -> tempfile::NamedTempFile {
    let saved = std::fs::read_to_string("tests/explain/modern.save").unwrap();
    let kept = saved.lines().filter(|line| !line.contains(part));
    let chains: Vec<String> = chains
        .iter()
        .map(|chain| format!(":{chain} - [0:0]\n"))
        .collect();
    let chains = chains.concat();
    let text = format!("{}\n", kept.collect::<Vec<_>>().join("\n"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        text.replace("*nat\n", &format!("*nat\n{chains}")),
    )
    .unwrap();
    file
}

#[test]
fn what_nothing_leads_to_is_not_served() {
    let dump = damaged("-j KUBE-NODEPORTS", &[]);
    let from_save = format!("--from-save={}", dump.path().display());
    let output = run(&[&from_save, "web", "--no-headers"]);
    let row = &output.stdout;
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        (&words[2..4], words[6], words[7]),
        (&["no", "path"][..], "80:30080(unreachable)/tcp", "3"),
        "{row}"
    );
    let said = output
        .stderr
        .replace(&format!("`{}`", dump.path().display()), "DUMP");
    assert!(output.is_success(), "{said}");
    assert!(
        said.starts_with("note: no jump from `KUBE-SERVICES` to `KUBE-NODEPORTS` (nat, IPv4)"),
        "{said}"
    );
    // With a restart the node would have no more addresses.
    assert!(
        said.ends_with(
            "\nhint: check that the node has an address in --nodeport-addresses: deltaproxy adds the \
             jump when it gets one, kube-proxy with its next sync\n1 service port, not ok, in DUMP\n"
        ),
        "{said}"
    );
    let json = run(&[&from_save, "-ojson"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let gap =
        serde_json::json!([{"family": "IPv4", "from": "KUBE-SERVICES", "to": "KUBE-NODEPORTS"}]);
    assert_eq!(json["missingJumps"], gap);
    let fates = json["servicePorts"].as_array().unwrap().iter();
    let fates = fates.flat_map(|port| port["entrances"].as_array().unwrap());
    assert_eq!(fates.filter(|one| one["fate"] == "Unreachable").count(), 1);

    let dump = damaged("-A PREROUTING", &[]);
    let from_save = format!("--from-save={}", dump.path().display());
    let output = run(&[&from_save, "web", "--no-headers"]);
    let row = &output.stdout;
    assert!(row.ends_with(" 3(unreachable-from-outside)\n"), "{row}");
    let said = &output.stderr;
    assert!(said.contains("`PREROUTING`"));
    assert!(said.contains("\nhint: restart the proxy"), "{said}");
}

#[test]
fn every_frontend_without_endpoints_is_marked() {
    let columns = |part| {
        let dump = damaged(part, &[]);
        let from_save = format!("--from-save={}", dump.path().display());
        let row = run(&[&from_save, "web", "--no-headers"]).stdout;
        let words: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
        words[2..].join(" ")
    };
    assert_eq!(
        columns("-A KUBE-EXT-WEB -j KUBE-SVC-WEB"),
        "no path 10.96.0.10 203.0.113.9(unreachable) 80:30080(unreachable)/tcp 3"
    );
    // The mark of the endpoints is that of all frontends.
    let all = columns("-A PREROUTING");
    assert!(
        all.starts_with("no path 10.96.0.10 203.0.113.9 80:30080"),
        "{all}"
    );
}

#[test]
fn what_is_lost_with_a_table_is_not_known() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let rules = "*filter\n:KUBE-NODEPORTS - [0:0]\n:KUBE-PROXY-FIREWALL - [0:0]\n\
        :KUBE-EXTERNAL-SERVICES - [0:0]\n\
        -A KUBE-NODEPORTS -p tcp -m comment --comment \"a/checked:http health check node port\" \
        -m tcp --dport 32000 -j ACCEPT\n\
        -A KUBE-PROXY-FIREWALL -d 192.0.2.1/32 -p tcp -m comment --comment \"a/guarded:http traffic \
        not accepted by KUBE-FW-X\" -m tcp --dport 80 -j DROP\n\
        -A KUBE-EXTERNAL-SERVICES -d 192.0.2.2/32 -p tcp -m comment --comment \"a/outer:http has no \
        local endpoints\" -m tcp --dport 80 -j DROP\n\
        -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"a/port:http has no local endpoints\" \
        -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP\nCOMMIT\n";
    std::fs::write(file.path(), rules).unwrap();
    let from_save = format!("--from-save={}", file.path().display());
    let rows = run(&[&from_save, "--no-headers", "-o=wide"]).stdout;
    let rows: Vec<String> = rows
        .lines()
        .map(|row| {
            let words: Vec<&str> = row.split_whitespace().skip(1).take(7).collect();
            words.join(" ")
        })
        .collect();
    assert_eq!(
        rows,
        [
            "checked:http unknown <unknown> <unknown> <unknown>/tcp <unknown> LoadBalancer",
            "guarded:http unknown <unknown> <unknown> <unknown>/tcp <unknown> <unknown>",
            "outer:http unknown <unknown> 192.0.2.2 80/tcp <unknown> <unknown>",
            "port:http unknown <unknown> <unknown> <unknown>:30080/tcp <unknown> NodePort",
        ]
    );
    let json = run(&[&from_save, "-ojson", "guarded"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["servicePorts"][0]["type"], serde_json::Value::Null);
}

#[test]
fn chains_that_are_left_over_are_told_under_a_table() {
    let names = ["A", "B", "C", "D"].map(|name| format!("KUBE-SVC-{name}"));
    let dump = damaged("nothing", &names.each_ref().map(String::as_str));
    let from_save = format!("--from-save={}", dump.path().display());
    let said = run(&[&from_save]).stderr;
    let (said, _) = said.split_once("4 service ports, ").unwrap();
    assert_eq!(
        said,
        "note: unreferenced chains (nat, IPv4): 4: KUBE-SVC-A, KUBE-SVC-B, KUBE-SVC-C \
         and 1 more; a full sync deletes those of no Service\n"
    );
    // They are of none of these, and documents have them.
    for args in [&["web"][..], &["-n=shop"], &["-ojson"]] {
        shown(&[&[from_save.as_str()], args].concat());
    }
}

/// A dump, and the error that names its line.
#[track_caller]
fn refused(dump: &[u8], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    std::fs::write(&path, dump).unwrap();
    let output = run(&["--from-save", path.to_str().unwrap()]);
    let said = output.stderr.replace(path.to_str().unwrap(), "FILE");
    assert_eq!(output.code, Some(1), "{said}");
    let (error, hint) = said.split_once('\n').unwrap();
    assert_eq!(error, format!("error: `FILE`: {expected}"));
    assert!(
        hint.starts_with("hint: ") && hint.lines().count() == 1,
        "{hint}"
    );
}

#[test]
fn what_is_no_dump_is_refused_with_file_and_line() {
    refused(
        b"*nat\n:A - [0:0]\n-A A -j RET",
        "cannot read line 4: COMMIT expected",
    );
    refused(b"*nat\n*filter\n", "cannot read line 2: COMMIT expected");
    refused(
        b"-A KUBE-SERVICES -j RETURN\n",
        "cannot read line 1: command outside of a table",
    );
    refused(
        b"*nat\n-A A -j RETURN\nCOMMIT\n",
        "cannot read line 2: chain `A` does not exist",
    );
    refused(
        b"*nat\nhello\nCOMMIT\n",
        "cannot read line 2: unknown command `hello`",
    );
    refused(b"\x1f\x8b\x08\n\x00\x00", "line 2 is not text");
    refused(b"#\0 \0G\0", "line 1 is not text");
}

/// An empty file is what is left of a dump that failed, not a machine without rules.
#[test]
fn an_empty_dump_is_none() {
    let folder = tempfile::tempdir().unwrap();
    for written in ["", "\n", "# Generated by iptables-save v1.8.9\n"] {
        let path = folder.path().join("dump");
        std::fs::write(&path, written).unwrap();
        let output = run(&["--from-save", path.to_str().unwrap()]);
        let said = &output.stderr;
        assert_eq!(output.code, Some(1), "{said}");
        assert!(
            said.contains("contains no rules of iptables-save"),
            "{said}"
        );
    }
}
