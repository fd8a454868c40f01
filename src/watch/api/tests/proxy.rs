//! Tests of `proxy`.

use super::*;

fn environment(https: &str, http: &str, no_proxy: &str) -> ProxyEnvironment {
    ProxyEnvironment {
        https: https.to_owned(),
        http: http.to_owned(),
        no_proxy: no_proxy.to_owned(),
    }
}

#[test]
fn the_proxy_of_the_environment_depends_on_scheme_and_server() {
    let both = environment("http://secure:3128", "plain:3129", "direct.test");
    for (server, expected) in [
        ("https://api.test:6443/", Some("http://secure:3128")),
        ("http://api.test/", Some("http://plain:3129")),
        ("https://direct.test:6443/", None),
        ("https://127.0.0.1:6443/", None),
    ] {
        let proxy = both.proxy_for(&server.parse().unwrap());
        assert_eq!(proxy.map(|proxy| proxy.display_url()).as_deref(), expected);
    }
    // `HTTP_PROXY` has no effect on a server with TLS, nor has an invalid `HTTPS_PROXY`.
    let server: Uri = "https://api.test:6443/".parse().unwrap();
    for https in ["", "socks4://proxy:1080", "http://", "a b"] {
        let environment = environment(https, "http://plain:3129", "");
        assert!(environment.proxy_for(&server).is_none(), "{https}");
    }
}

#[test]
fn default_ports_of_proxies_are_those_of_their_schemes() {
    for (url, expected) in [
        ("http://user:secret@proxy", "http://proxy:80/"),
        ("https://proxy/path", "https://proxy:443/"),
        ("socks5://proxy", "http://proxy:1080/"),
        ("socks5h://[fd00::1]:7", "http://[fd00::1]:7/"),
    ] {
        let proxy = Proxy::parse_url(url).unwrap();
        assert_eq!(proxy.tcp_endpoint().to_string(), expected);
        assert!(!proxy.display_url().contains("secret"));
    }
}

#[test]
fn an_invalid_proxy_url_is_an_error_without_its_password() {
    for (url, shown) in [
        ("ftp://user:secret@proxy", "proxy"),
        ("proxy:3128", "proxy:3128"),
        ("http://", "http://"),
    ] {
        let error = Proxy::parse_url(url).unwrap_err().to_string();
        let expected =
            format!("proxy-url `{shown}` is not a valid URL of an http, https or socks5 proxy");
        assert_eq!(error, expected);
    }
}

#[test]
fn no_proxy_has_addresses_networks_and_domains() {
    for (list, host, is_bypassed) in [
        ("", "api.example.com", false),
        ("*", "api.example.com", true),
        ("other, *", "10.0.0.1", true),
        ("example.com", "example.com", true),
        ("example.com", "api.example.com", true),
        ("EXAMPLE.com", "api.Example.COM", true),
        ("example.com", "badexample.com", false),
        (".example.com", "api.example.com", true),
        ("*.example.com", "api.example.com", true),
        ("*.example.com", "badexample.com", false),
        (" 10.0.0.1 ,x", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.10", false),
        ("fd00::1", "[fd00:0::1]", true),
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "11.1.2.3", false),
        ("fd00::/8", "[fd00::1]", true),
        ("10.0.0.0/8", "api.example.com", false),
        ("0.1", "10.0.0.1", false),
        (",,.,", "api.example.com", false),
        // An entry with a port matches nothing.
        ("example.com:6443", "example.com", false),
        // Loopback needs no entry.
        ("", "localhost", true),
        ("", "127.0.0.9", true),
        ("", "[::1]", true),
        ("", "[::ffff:127.0.0.1]", true),
    ] {
        let server = format!("https://{host}:6443/").parse().unwrap();
        let found = environment("", "", list).bypasses(&server);
        assert_eq!(found, is_bypassed, "{list} {host}");
    }
}
