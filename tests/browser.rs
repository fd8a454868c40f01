//! Pages of a running daemon in a browser, in both themes: contrast, roles and names as axe-core
//! judges them, and the requests that the browser makes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::status_pages::{ALL, LOOPBACK, get, start};
use crate::support::daemon::Backend;
use crate::support::netns::Netns;
use crate::support::{artifacts, needs};

/// Replaces the page by what axe-core found on it.
const JUDGE: &str = "axe.run().then(result => {
    const found = document.createElement('pre');
    found.id = 'found';
    found.textContent = JSON.stringify({
        passed: result.passes.length,
        violations: result.violations.map(rule => [rule.id, rule.nodes.map(node => node.html)]),
    });
    document.body.replaceChildren(found);
});";

/// Preferred color schemes, as Chromium numbers them.
const DARK: u8 = 0;
const LIGHT: u8 = 1;

/// Returns the document that Chromium makes of a page.
fn opened(netns: &Netns, url: &str, scheme: u8, extra: &[String]) -> String {
    let profile = TempDir::new().unwrap();
    let mut chromium = netns.command("chromium");
    chromium.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]);
    chromium.arg(format!("--user-data-dir={}", profile.path().display()));
    chromium.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    chromium.args(extra).arg(url);
    let output = chromium.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the rules of axe-core that a page breaks, with the elements, and how many it keeps.
fn judged(netns: &Netns, page: &str, scheme: u8) -> (Vec<Value>, u64) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    let axe = fs::read_to_string(artifacts::axe()).unwrap();
    let scripts = format!("<script>{axe}</script><script>{JUDGE}</script></body>");
    assert_eq!(page.matches("</body>").count(), 1);
    fs::write(&file, page.replace("</body>", &scripts)).unwrap();
    let document = opened(netns, &url_of(&file), scheme, &[]);
    let found = document.split_once("<pre id=\"found\">");
    let found = found.and_then(|(_, rest)| rest.split_once("</pre>"));
    let (json, _) = found.unwrap_or_else(|| panic!("no result: {document}"));
    let json = json
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let found: Value = serde_json::from_str(&json).unwrap();
    let broken = found["violations"].as_array().unwrap().clone();
    (broken, found["passed"].as_u64().unwrap())
}

fn url_of(file: &Path) -> String {
    format!("file://{}", file.display())
}

#[test]
fn the_pages_are_accessible() {
    needs!(Browser);
    let (netns, _daemon) = start(Backend::Nft, ALL);
    for path in [
        "/",
        "/services",
        "/services?q=checkout",
        "/services/shop/checkout",
    ] {
        let (_, page) = get(&netns, LOOPBACK, path);
        for scheme in [DARK, LIGHT] {
            let (broken, kept) = judged(&netns, &page, scheme);
            assert!(
                broken.is_empty() && kept > 10,
                "{path}: {kept}, {broken:#?}"
            );
        }
    }
    // A page that is not.
    let (_, page) = get(&netns, LOOPBACK, "/");
    let unreadable = page.replace(
        "<main",
        "<p style='color: #ccc; background: #fff'>pale</p><main",
    );
    let (broken, _) = judged(&netns, &unreadable, LIGHT);
    assert_eq!(broken[0][0], "color-contrast", "{broken:?}");
}

/// Returns the URLs that a page requests. Chromium requests others for itself.
fn requested(netns: &Netns, origin: &str, path: &str) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("requests.json");
    let log_flag = format!("--log-net-log={}", log.display());
    opened(netns, &format!("{origin}{path}"), LIGHT, &[log_flag]);
    let log: Value = serde_json::from_slice(&fs::read(&log).unwrap()).unwrap();
    let events = log["events"].as_array().unwrap().iter();
    let params = events.map(|event| &event["params"]);
    let of_page = params.filter(|params| params["initiator"] == origin);
    of_page
        .filter_map(|params| Some(params["url"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn the_pages_request_nothing() {
    needs!(Browser);
    let (netns, _daemon) = start(Backend::Nft, ALL);
    for path in ["/", "/services", "/services/shop/checkout"] {
        let urls = requested(&netns, &format!("http://{LOOPBACK}"), path);
        assert!(urls.is_empty(), "{path}: {urls:?}");
    }
    // A page that does.
    let listener = netns.enter(|| TcpListener::bind("127.0.0.1:8080").unwrap());
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = BufReader::new(&client).lines().map_while(Result::ok);
        request.find(String::is_empty).unwrap();
        let page = "<img src='http://127.0.0.9/pixel'>";
        let head = format!("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n{page}");
        client.write_all(head.as_bytes()).unwrap();
    });
    let urls = requested(&netns, "http://127.0.0.1:8080", "/");
    server.join().unwrap();
    assert!(
        urls.contains(&"http://127.0.0.9/pixel".to_owned()),
        "{urls:?}"
    );
}
