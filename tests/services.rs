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

/// The first three words of each line that it prints.
#[track_caller]
fn lists(args: &[&str], expected: &[&str]) {
    let shown = shown(&[args, &["--no-headers"]].concat());
    let lines = shown.lines();
    let names = lines.map(|line| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join("/")
    });
    assert_eq!(names.collect::<Vec<_>>(), expected, "{args:?}");
}

const TABLE: &str = "\
NAMESPACE   NAME      STATUS         CLUSTER-IP   EXTERNAL-IP   PORT(S)        ENDPOINTS
ns1         none      no endpoints   172.30.0.4   <none>        80/tcp         0
ns1         a:p80     ok             172.30.0.1   <none>        80/tcp         3
ns1         dns:dns   ok             172.30.0.3   <none>        53/udp         1
ns1         lb:p80    ok             172.30.0.2   1.2.3.4       80:30080/tcp   2
ns1         six:p     ok             fd00:30::1   <none>        80/tcp         2
";

#[test]
fn a_row_is_of_both_families() {
    let table = shown(&[V4, V6]);
    assert_eq!(table, TABLE);
    assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
    let output = run(&["--manifests=deploy/examples", "storefront", "--no-headers"]);
    let row = &output.stdout;
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((words[3], words[6]), ("10.96.10.1", "3+3"));
    // All addresses are in the wide table.
    let wide = shown(&[V4, V6, "-o=wide"]);
    assert!(wide.starts_with(TABLE.lines().next().unwrap()), "{wide}");
    let output = run(&["--manifests=deploy/examples", "storefront", "-o=wide"]);
    let row = &output.stdout;
    assert!(row.contains(" 10.96.10.1,fd00:10:96::a01 "), "{row}");
}

#[test]
fn usual_names_fit_into_110_columns() {
    let output = run(&["--manifests=deploy/examples"]);
    let table = &output.stdout;
    let longest = table.lines().map(str::len).max();
    assert!(longest.is_some_and(|length| length <= 110), "{table}");
}

#[test]
fn problems_are_listed_and_fail() {
    let modern = "--from-save=tests/explain/modern.save";
    let output = run(&[modern, "--problems", "--no-headers"]);
    assert_eq!(output.code, Some(1));
    let table = &output.stdout;
    let names = table
        .lines()
        .map(|line| line.split("   ").nth(2).unwrap().trim());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["agent:log", "edge:http", "empty"],
        "{table}"
    );
    assert_eq!(
        output.stderr,
        "error: 4 service ports, 3 not ok, in `tests/explain/modern.save`\n"
    );
    let json = run(&[modern, "--problems", "-o=json"]);
    assert_eq!(json.code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let ports = json["servicePorts"].as_array().unwrap().iter();
    let statuses: Vec<_> = ports.map(|port| port["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses,
        ["no local endpoint", "no local endpoint", "no endpoints"]
    );
    let output = run(&[modern, "--problems", "web"]);
    assert_eq!((output.code, output.stdout), (Some(0), String::new()));
    assert_eq!(
        output.stderr,
        "1 service port, ok, in `tests/explain/modern.save`\n"
    );
}

#[test]
fn problems_of_no_service_port_fail_as_well() {
    // No packet is masqueraded, and all endpoints are reached.
    let dump = damaged("-A POSTROUTING", &[]);
    let from_save = format!("--from-save={}", dump.path().display());
    let output = run(&[&from_save, "web", "--problems"]);
    assert_eq!((output.code, output.stdout), (Some(1), String::new()));
    let said = &output.stderr;
    assert!(
        said.starts_with("note: ") && said.ends_with("; see the notes\n"),
        "{said}"
    );
    // A Service that lost all frontends has no row.
    let lost = [
        "--manifests=tests/explain/conflict.yaml",
        "z/late",
        "--problems",
    ];
    assert_eq!(run(&lost).code, Some(1));
    // No proxy is no answer.
    let none = run(&["--from-save=tests/explain/other-rules.save", "--problems"]);
    assert_eq!(none.code, Some(1), "{none:#?}");
}

#[test]
fn names_are_those_of_kubectl() {
    assert_eq!(
        shown(&[V4, V6, "-o=name"]),
        "service/a\nservice/dns\nservice/lb\nservice/none\nservice/six\n"
    );
    // One line for both ports.
    let output = run(&["--manifests=deploy/examples", "checkout", "-o=name"]);
    assert_eq!(output.stdout, "service/checkout\n");
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

#[test]
fn filters_choose() {
    let all = ["ns1/none", "ns1/a:p80", "ns1/dns:dns", "ns1/lb:p80"];
    lists(&[V4], &all);
    lists(&[V4, "-n", "ns1"], &all);
    lists(&[V4, "dns", "ns1/none"], &["ns1/none", "ns1/dns:dns"]);
    lists(&[V4, "lb:p80"], &["ns1/lb:p80"]);
    lists(
        &[V4, "lb.ns1", "dns.ns1.svc:53"],
        &["ns1/dns:dns", "ns1/lb:p80"],
    );
    lists(&[V4, "lb:80", "dns:53/udp"], &["ns1/dns:dns", "ns1/lb:p80"]);
    lists(&[V4, "-n", "ns1", "svc/lb", "-n=ns1"], &["ns1/lb:p80"]);
}

#[test]
fn a_name_that_nothing_has_is_a_failure() {
    let output = run(&[V4, "ns1/lbb", "dns", "lb:other", "--no-headers"]);
    assert_eq!(output.code, Some(1));
    assert_eq!(
        output.stderr,
        "error: no Service `ns1/lbb` has rules\nhint: did you mean `ns1/lb`?\n\
         hint: headless Services and those of type ExternalName have no rules\n\
         error: `lb:other` has no such port\nhint: did you mean `ns1/lb:p80/tcp`?\n"
    );
    // What was found is shown all the same.
    assert!(output.stdout.starts_with("ns1 "));
    let output = run(&[V4, "other/lb", "--output=json"]);
    let none = &output.stdout;
    assert!(none.contains("\"servicePorts\": []"), "{none}");
    assert_eq!(output.code, Some(1));
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

#[test]
fn endpoints_are_those_of_every_policy_each_counted_once() {
    let counts = |dump: &str, name: &str| {
        let from_save = format!("--from-save=tests/dumps/{dump}");
        let table = shown(&[&from_save, name, "-o=wide"]);
        let [headings, row] = table.lines().collect::<Vec<_>>()[..] else {
            panic!("{table}");
        };
        let cells = ["POLICY", "ENDPOINTS", "LOCAL"].map(|heading| {
            let (_, rest) = row.split_at(headings.find(heading).unwrap());
            rest.split_whitespace().next().unwrap()
        });
        cells.join(" ")
    };
    // Two in the cluster, one of them here.
    assert_eq!(
        counts("kube-proxy-1.29-v4.save", "traefik:web"),
        "Cluster/Local 2 1"
    );
    assert_eq!(
        counts("kube-proxy-1.23-v6.save", "six"),
        "Cluster/Local 1 0"
    );
    // Of those elsewhere no rule knows.
    assert_eq!(counts("kube-proxy-1.23-v6.save", "here"), "Local 1 1");
}

#[test]
fn nothing_is_said_on_stderr_and_is_no_failure() {
    for (args, expected) in [
        // Where nothing is, no namespace is wrong.
        (
            &["--from-save=tests/explain/no-services.save", "-n=ns1"][..],
            "no such service ports in `tests/explain/no-services.save`\n",
        ),
        (
            &["--from-save=tests/explain/no-services.save"],
            "no service ports in `tests/explain/no-services.save`\n",
        ),
        (
            &["--from-save=tests/explain/other-rules.save", "-n=ns1"],
            "warning: `tests/explain/other-rules.save`: no rules of a kube-proxy in iptables mode\n\
             hint: in nftables mode, `nft list table ip kube-proxy` lists its rules\n",
        ),
    ] {
        let output = run(args);
        assert!(output.is_success() && output.stdout.is_empty());
        assert_eq!(output.stderr, expected);
    }
}

#[test]
fn a_name_that_no_service_can_have_is_unusable() {
    for args in [&["a/b/c"][..], &["a/web", "-n", "b"]] {
        let output = run(args);
        assert_eq!(output.code, Some(64), "{output:#?}");
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

#[test]
fn a_file_behind_the_wrong_flag_is_recognized() {
    let dump = "tests/explain/modern.save";
    let manifest = "deploy/examples/storefront.yaml";
    for (args, code, expected) in [
        (["--manifests", dump], 2, "read it with --from-save"),
        (
            ["--from-save", manifest],
            1,
            "hint: use --manifests in place of --from-save",
        ),
    ] {
        let output = run(&args);
        let said = &output.stderr;
        assert_eq!(output.code, Some(code), "{said}");
        assert!(said.contains(expected) && said.contains(args[1]), "{said}");
    }
}

#[test]
fn a_rule_that_nobody_can_read_is_carried_and_mentioned() {
    let output = run(&["--from-save=tests/dumps/unreadable-v4.save"]);
    let said = &output.stderr;
    assert!(output.is_success(), "{said}");
    assert!(said.contains("rules that cannot be parsed: 5, the first in `FORWARD` of filter: -j"));
}
