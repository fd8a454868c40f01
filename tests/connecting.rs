//! Errors of an API server that gives no list, as the commands print them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use crate::support::certificate::self_signed;
use crate::support::needs;
use crate::support::netns::Netns;
use crate::support::played::{closed, kubeconfig_flag, listen, response};
use crate::support::process::Process;
use crate::support::program::{PROGRAM, Ran, run};
use crate::support::wait::{PATIENCE, ensure, eventually};

/// Runs `services`, which must fail, and returns its stderr.
fn failure(command: &mut Command, kubeconfig: &str) -> String {
    let output = Ran::of(command.args(["services", kubeconfig]));
    output.fails(1, &[]);
    output.stderr
}

#[test]
fn a_failed_credential_plugin_shows_its_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let exec = |command: &str, args: &str| {
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
             command: {command}, args: {args}}}"
        );
        let flag = kubeconfig_flag(folder.path(), "server: 'http://127.0.0.1:1'", &user);
        failure(&mut Command::new(PROGRAM), &flag)
    };
    let said = exec(
        "sh",
        "['-c', 'echo session expired >&2; echo log in >&2; exit 3']",
    );
    assert!(
        said.contains(
            "the credential plugin `sh` of the kubeconfig failed: exit status: 3: session expired; \
             log in\n"
        ),
        "{said}"
    );
    assert!(!said.contains("Output"), "{said}");
    let said = exec("/nowhere/login", "[]");
    let start = "error: cannot use the credentials for `http://127.0.0.1:1/`: the credential plugin \
                 `/nowhere/login` of the kubeconfig failed: cannot start it: No such file";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn a_certificate_of_another_authority_is_not_a_server_that_is_down() {
    needs!(Kernel);
    let folder = tempfile::tempdir().unwrap();
    if !self_signed(folder.path(), "server") || !self_signed(folder.path(), "other") {
        return;
    }
    let netns = Netns::new("certificate");
    let mut command = netns.command("openssl");
    command.args(["s_server", "-quiet", "-www", "-accept", "127.0.0.1:6443"]);
    command.arg("-cert").arg(folder.path().join("server.pem"));
    command.arg("-key").arg(folder.path().join("server.key"));
    let _server = Process::start("openssl", &mut command, &folder.path().join("log"));
    let cluster = format!(
        "server: 'https://127.0.0.1:6443', certificate-authority: '{}'",
        folder.path().join("other.pem").display()
    );
    let flag = kubeconfig_flag(folder.path(), &cluster, "");
    eventually(PATIENCE, || {
        let said = failure(&mut netns.command(PROGRAM), &flag);
        // Until the server listens, the connection is refused.
        let expected = "error: the API server `https://127.0.0.1:6443/`: the certificate of the \
                        server is not trusted: ";
        let hint = "\nhint: check that the certificate authority of the kubeconfig is that of this \
                    cluster\n";
        ensure(said.starts_with(expected) && said.ends_with(hint), || said)
    });
}

/// Answers connections with these bytes, whatever is sent.
fn talker(answer: impl AsRef<[u8]> + Send + Sync + 'static) -> SocketAddr {
    listen(move |mut stream| {
        let _ = stream.read(&mut [0; 4096])?;
        stream.write_all(answer.as_ref())
    })
}

/// Checks the error of every command that lists the objects of a cluster.
#[track_caller]
fn unlisted(flag: &str, expected: &str) {
    let dump = "--from-save=tests/explain/modern.save";
    for args in [
        &["services"][..],
        &["render"],
        &["explain", "web"],
        &["diff", dump],
    ] {
        let output = run(&[args, &[flag]].concat());
        let said = &output.stderr;
        assert!(!output.is_success(), "{args:?}");
        assert_eq!(said, expected, "{args:?}");
    }
}

#[test]
fn a_server_that_gives_no_list_is_named() {
    let address = closed();
    unlisted(
        &format!("--master=http://{address}"),
        &format!(
            "error: the API server `http://{address}/` did not answer: Connection refused (os error \
             111)\nhint: check that it is up, and that --kubeconfig or --master names the \
             right one\n"
        ),
    );
    for (status, hint) in [
        (
            "401 Unauthorized",
            "check that the credentials of the kubeconfig are of this cluster and not expired",
        ),
        (
            "403 Forbidden",
            "allow the user to list Services, EndpointSlices and Nodes",
        ),
    ] {
        let body =
            r#"{"kind": "Status", "apiVersion": "v1", "message": "no", "reason": "Because"}"#;
        let address = talker(response(status, body));
        let code = &status[..3];
        unlisted(
            &format!("--master=http://{address}"),
            &format!(
                "error: the API server `http://{address}/`: the server responded with {code} Because: no\n\
                 hint: {hint}\n"
            ),
        );
    }
    for (body, problem) in [
        (
            "<html></html>",
            "the response cannot be decoded: expected value at line 1 column 1",
        ),
        (
            r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}"#,
            ", got `v1 PodList`",
        ),
    ] {
        let address = talker(response("200 OK", body));
        let output = run(&["services", &format!("--master=http://{address}")]);
        let said = &output.stderr;
        assert!(!output.is_success(), "{body}");
        let start = format!("error: the API server `http://{address}/`: ");
        let hint = "\nhint: check that --kubeconfig or --master names an API server\n";
        assert!(said.starts_with(&start) && said.ends_with(hint), "{said}");
        // Of the list that was first.
        assert!(said.contains(problem), "{said}");
    }
    unlisted(
        "--kubeconfig=nosuch",
        "error: cannot read kubeconfig `nosuch`: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_scheme_that_the_server_does_not_speak_is_named() {
    let http = talker(b"HTTP/1.0 400 Bad Request\r\n\r\nbad");
    unlisted(
        &format!("--master=https://{http}"),
        &format!(
            "error: the API server `https://{http}/`: the server has no TLS on this port: received \
             corrupt message of type InvalidContentType\n\
             hint: use http:// in the address if the server has no TLS, or the port of the API \
             server\n"
        ),
    );
    let hint = "hint: use https:// in the address, unless the server has no TLS\n";
    let go = talker(
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    );
    unlisted(
        &format!("--master=http://{go}"),
        &format!(
            "error: the API server `http://{go}/`: the server responded with 400: Client \
             sent an HTTP request to an HTTPS server.\n{hint}"
        ),
    );
    // An alert of TLS, and none.
    let answers: [(&[u8], &str); 2] = [
        (b"\x15\x03\x01\0\x02\x02\x46", "invalid HTTP version parsed"),
        (b"", "connection closed before message completed"),
    ];
    for (answer, problem) in answers {
        let server = talker(answer);
        unlisted(
            &format!("--master=http://{server}"),
            &format!(
                "error: the API server `http://{server}/` did not answer in HTTP: {problem}\n{hint}"
            ),
        );
    }
}

#[test]
fn what_a_kubeconfig_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let contexts = "contexts: [{name: dev, context: {cluster: c}}, {name: prot, context: {cluster: d}}]\n\
                    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n";
    let no_context = "it has no current context\n\
                      hint: set one: kubectl config use-context NAME --kubeconfig FILE";
    for (text, problem) in [
        (String::new(), no_context),
        (
            "kind: Config\ncurrent-context: dev\n".to_owned(),
            "unknown context `dev`\nhint: list them: kubectl config get-contexts",
        ),
        (
            format!("{contexts}current-context: prod\n"),
            "unknown context `prod`\nhint: list them: kubectl config get-contexts",
        ),
        (format!("{contexts}current-context: ''\n"), no_context),
        (
            format!("{contexts}current-context: prot\n"),
            "unknown cluster `d`\nhint: list them: kubectl config get-clusters",
        ),
    ] {
        fs::write(&path, &text).unwrap();
        let path = path.display();
        unlisted(
            &format!("--kubeconfig={path}"),
            &format!("error: cannot read kubeconfig `{path}`: {problem}\n"),
        );
    }
}

#[test]
fn a_server_that_hangs_is_named_after_2_s_and_its_time_is_limited() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", hung.local_addr().unwrap());
    let master = format!("--master={address}");
    let server = format!("the API server `{address}/`");
    let failure = |limit: &str| {
        format!(
            "error: {server}: timed out: the lists are not complete after {limit} s\n\
             hint: check that it is up and reachable from here, or set a longer --request-timeout\n"
        )
    };
    let output = run(&["services", &master, "--request-timeout=500ms"]);
    assert_eq!(output.stderr, failure("0.5"));
    let output = run(&["services", &master, "--request-timeout=3s"]);
    let note = format!("note: waiting for {server}, at most 3 s (--request-timeout)\n");
    assert_eq!(output.stderr, note + &failure("3"));
    assert_eq!(output.code, Some(1));
    for (command, code) in [("render", 1), ("diff", 2), ("explain", 1)] {
        let mut args = vec![command, &master, "--request-timeout=1ms"];
        args.extend((command == "explain").then_some("web"));
        args.extend((command == "diff").then_some("--from-save=tests/explain/modern.save"));
        let output = run(&args);
        assert!(output.stderr.ends_with(&failure("0.001")), "{command}");
        assert_eq!(output.code, Some(code), "{command}");
    }
    for (value, problem) in [
        (
            "5",
            "`5` is not a valid duration (examples: 30s, 500ms, 1h30m)",
        ),
        ("-1s", "must not be negative, got -1s"),
    ] {
        let output = run(&["services", &master, &format!("--request-timeout={value}")]);
        assert_eq!(
            output.stderr,
            format!("error: --request-timeout: {problem}\n")
        );
        assert_eq!(output.code, Some(64));
    }
}

/// Errors are logged, so they must not have the text around them.
#[test]
fn an_error_in_a_kubeconfig_does_not_show_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let users = [
        (
            "user:\n    token: SECRET\n   client: x",
            "line 6, column 4: while parsing a block mapping",
        ),
        ("user: SECRET", "line 4, column 9: unexpected value"),
        (
            "user: {token: SECRET, token: SECRET}",
            "line 4, column 25: unexpected value",
        ),
        (
            "user: {token: \"SECRET\\q\"}",
            "line 4, column 17: while parsing a quoted scalar",
        ),
        (
            "user: {token: *SECRET}",
            "line 4, column 17: unexpected value",
        ),
    ];
    for (user, expected) in users {
        let text = format!("apiVersion: v1\nusers:\n- name: u\n  {user}\n");
        fs::write(&path, text).unwrap();
        let source = ["services", "--kubeconfig", path.to_str().unwrap()];
        let output = run(&source);
        let stderr = &output.stderr;
        assert_eq!(output.code, Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("SECRET"), "{stderr}");
    }
}
