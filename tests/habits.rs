//! What every command has in common: help, manual pages, and names of the program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::program::{PROGRAM, Ran, command};

fn run(program: impl AsRef<Path>, args: &[&str]) -> Ran {
    Ran::of(&mut command(program, args))
}

/// The commands that the program's help lists.
fn commands() -> Vec<String> {
    let help = run(PROGRAM, &["--help"]).stdout;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    assert!(names.contains(&"services".to_owned()), "{help}");
    names
}

#[test]
fn every_command_has_examples_and_a_manual_page() {
    let page = run(PROGRAM, &["man"]).stdout;
    for name in commands() {
        let help = run(PROGRAM, &[&name, "--help"]).stdout;
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{help}"));
        assert!(examples.contains(&format!("deltaproxy {name}")), "{help}");
        let escaped = name.replace('-', "\\-");
        let reference = format!(".TP\ndeltaproxy\\-{escaped}(1)\n");
        assert!(page.contains(&reference), "{page}");
        let own = run(PROGRAM, &["man", &name]);
        assert!(own.is_success(), "{own:#?}");
        let title = format!(".TH deltaproxy-{name} 1");
        assert!(own.stdout.contains(&title), "{name}");
    }
}

#[test]
fn a_plugin_of_kubectl_names_itself_so() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-deltaproxy");
    symlink(PROGRAM, &plugin).unwrap();
    let help = run(&plugin, &["--help"]).stdout;
    assert!(
        help.contains("Usage: kubectl deltaproxy <COMMAND>"),
        "{help}"
    );
    let help = run(&plugin, &["services", "--help"]).stdout;
    assert!(
        help.contains("Usage: kubectl deltaproxy services"),
        "{help}"
    );
    let mut examples = help
        .lines()
        .filter(|line| line.contains("deltaproxy services -"));
    assert!(
        examples.all(|line| line.contains("kubectl deltaproxy")),
        "{help}"
    );
    let wrong = run(&plugin, &["render", "--family=ipv5"]);
    assert_eq!(wrong.code, Some(64));
    let wrong = run(&plugin, &["render", "--no-such-flag"]);
    let said = &wrong.stderr;
    assert!(said.contains("Usage: kubectl deltaproxy render"), "{said}");
    assert_eq!(run(&plugin, &[]).code, Some(64));
}

#[test]
fn a_plugin_of_kubectl_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-deltaproxy");
    symlink(PROGRAM, &plugin).unwrap();
    for args in [
        ["run", "--dry-run"],
        ["run", "--cleanup"],
        ["cleanup", "--dry-run"],
        ["--manifests=deploy/examples", "--dry-run"],
        ["--cleanup", "--dry-run"],
        ["--init-only", "--dry-run"],
        ["check", "--pre"],
    ] {
        let refused = run(&plugin, &args);
        assert_eq!(refused.code, Some(64), "{args:?}");
        assert_eq!(refused.stdout, "", "{args:?}");
        let said = &refused.stderr;
        let is_refused = said.contains("is about the machine that it runs on")
            || said.contains("unexpected argument");
        assert!(is_refused, "{args:?}: {said}");
    }
    let help = run(&plugin, &["--help"]).stdout;
    let lists = |command: &str| help.lines().any(|line| line.trim().starts_with(command));
    assert!(
        lists("services ") && !["run ", "cleanup ", "check "].into_iter().any(lists),
        "{help}"
    );
}

/// A Service that `services` is asked about, with more of its specification, and what it says on
/// stderr with these objects beside it.
#[track_caller]
fn lacks(spec: &str, beside: &[&str], args: &[&str], expected: &str) {
    let service = format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: web}}, \
         spec: {{clusterIP: 10.96.0.1, type: NodePort, \
         ports: [{{port: 80, nodePort: 30080}}]{spec}}}}}"
    );
    let folder = tempfile::tempdir().unwrap();
    let text_of = [&[service.as_str()], beside].concat().join("\n---\n");
    std::fs::write(folder.path().join("all.yaml"), text_of).unwrap();
    let manifests = format!("--manifests={}", folder.path().display());
    let output = run(
        PROGRAM,
        &[&["services", "-o=name", manifests.as_str()], args].concat(),
    );
    assert!(output.is_success());
    assert_eq!(output.stderr, expected);
    // The two sides of a comparison lack the same, which is said once.
    let from = format!("--from-manifests={}", folder.path().display());
    let output = run(PROGRAM, &[&["diff", &from, &manifests], args].concat());
    assert_eq!(output.stderr, expected, "diff");
}

const SLICE: &str = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, \
    labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: '', port: 8080}], \
    endpoints: [{addresses: [10.4.0.1], nodeName: node-a, hints: {forZones: []}}]}";
const LOCAL: &str = ", externalTrafficPolicy: Local";

#[test]
fn what_objects_lack_is_said_where_it_matters() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: node-a}}";
    let whose = "hint: set --hostname-override to the node that rules are for\n";
    lacks("", &[SLICE], &[], "");
    lacks(LOCAL, &[SLICE, node], &["--hostname-override=node-a"], "");
    // Endpoints say which are on that node.
    lacks(LOCAL, &[SLICE], &["--hostname-override=node-a"], "");
    lacks(LOCAL, &[SLICE], &["--hostname-override=node-b"], "");
    let unknown = format!(
        "warning: no Nodes in the input: cannot determine which endpoints are local\n{whose}"
    );
    lacks(LOCAL, &[SLICE], &[], &unknown);
    let other = "warning: no Node `node-b` in the input, only `node-a`\n";
    let other = format!("{other}{whose}");
    lacks("", &[SLICE, node], &["--hostname-override=node-b"], &other);
    let hinted = SLICE.replace("forZones: []", "forZones: [{name: zone-a}]");
    lacks(
        "",
        &[&hinted],
        &["--hostname-override=node-a"],
        "warning: no Nodes in the input: the node's zone is unknown, and zone hints are \
         ignored\n",
    );
    lacks(
        "",
        &[],
        &[],
        "warning: no EndpointSlices in the input: every Service is treated as without endpoints\n\
         hint: include them: kubectl get services,endpointslices,nodes -A -o yaml\n",
    );
}

#[test]
fn kube_proxys_file_shapes_the_rules_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.conf");
    let config = |more: &str| {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
        std::fs::write(&path, format!("{head}{more}\n")).unwrap();
        format!("--config={}", path.display())
    };
    let commands = [
        &["services", "-o=wide"][..],
        &["render"],
        &["explain", "storefront"],
    ];
    for args in commands {
        let of = |file: &str| {
            let more = [
                "--manifests=deploy/examples",
                "--hostname-override=node1",
                file,
            ];
            run(PROGRAM, &[args, &more].concat())
        };
        let shaped = of(&config("clusterCIDR: 10.4.0.0/14"));
        assert!(shaped.is_success(), "{shaped:#?}");
        let flagged = of("--cluster-cidr=10.4.0.0/14");
        assert_eq!(shaped.stdout, flagged.stdout, "{args:?}");
        // Without it, rules are others.
        let plain = of(&config("")).stdout;
        assert_ne!(plain, shaped.stdout, "{args:?}");
        let both = [
            args,
            &["--manifests=deploy/examples", "--hostname-override=node1"],
        ]
        .concat();
        let file = config("clusterCIDR: 10.4.0.0/14");
        let both = run(PROGRAM, &[&both[..], &[&file, "--masquerade-all"]].concat());
        let said = &both.stderr;
        assert!(said.contains("--masquerade-all"), "{args:?}: {said}");
        let missing = of("--config=/nowhere/at/all");
        assert_eq!(missing.code, Some(64), "{args:?}");
    }
}

#[test]
fn errors_are_harmless_to_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    fs::write(&dump, "*nat\n-A KUBE-\x1b[31mX -j ACCEPT\nCOMMIT\n").unwrap();
    let output = run(
        PROGRAM,
        &["services", "--from-save", dump.to_str().unwrap()],
    );
    let said = &output.stderr;
    assert!(
        said.contains("\\u{1b}[31mX") && !said.contains('\x1b'),
        "{said}"
    );
}

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let output = run("sh", &["-c", &format!("{PROGRAM} --help >/dev/full")]);
    assert_eq!(output.code, Some(1));
}

/// `--color` decides, and without it the terminal, which no test has.
#[test]
fn color_is_chosen_by_a_flag() {
    let before = "--from-manifests=tests/golden/diff/before.yaml";
    let after = "--manifests=tests/golden/diff/after.yaml";
    let shop = "--manifests=deploy/examples";
    let green = "\x1b[32m";
    let red = "\x1b[31m";
    for (args, expected) in [
        (
            &["diff", before, after][..],
            &["\x1b[32m+ cluster IP 10.96.7.4", green, red][..],
        ),
        (&["diff", before, after, "--unified"], &[green, red]),
        (&["services", shop], &[red]),
        (&["explain", "shop/storefront", shop], &["\x1b[1m"]),
    ] {
        let colored = |flag: &[&str]| {
            let mut command = command(PROGRAM, args);
            Ran::of(command.args(flag).env("NO_COLOR", "1")).stdout
        };
        let always = colored(&["--color=always"]);
        for part in expected {
            assert!(always.contains(part), "{args:?}: {part:?}: {always}");
        }
        let plain = colored(&["--color=never"]);
        assert!(!plain.is_empty() && !plain.contains('\x1b'), "{args:?}");
        assert_eq!(colored(&[]), plain, "{args:?}");
        assert_eq!(
            anstream::adapter::strip_str(&always).to_string(),
            plain,
            "{args:?}"
        );
    }
}
