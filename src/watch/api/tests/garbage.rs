//! Responses that violate the API, and responses without end.

use std::time::Duration;

use super::protobuf::LIST;
use super::script::*;
use super::wire;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn listed_at(version: &str) -> Vec<String> {
    vec![end_of_list(version), bookmark(version)]
}

fn protobuf(body: &[u8]) -> Reply {
    Reply::Protobuf(200, vec![Piece::Bytes(body.to_vec())])
}

fn pieces(texts: &[&str]) -> Reply {
    ends(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// A watch that begins so leads to a list after at most three tries.
#[track_caller]
fn leads_to_a_list(answer: Reply) {
    let mut script = vec![ends(&listed_at("5"))];
    script.extend(vec![answer; 3]);
    let added = event("ADDED", &service("a", "9"));
    script.push(open(&[added, end_of_list("9")]));
    let (listed, again) = ("watch: listing, listed", "watch: listing, set a, listed");
    let failed = "watch after=5: failed protocol error";
    check(script, &[listed, failed, failed, failed, again]);
}

#[test]
fn an_undecodable_message_leads_to_a_list() {
    let text = |text: &str| Reply::Answer(200, vec![Piece::Text(text.to_owned()), Piece::Hang]);
    let bytes =
        |bytes: &[u8]| Reply::Protobuf(200, vec![Piece::Bytes(bytes.to_vec()), Piece::Hang]);
    let whole = wire::added("a", "6");
    let mut foreign = wire::enveloped(&wire::metadata("a", "6"));
    foreign[0] = b'K';
    for answer in [
        text("this is a line of text\n"),
        text("<html>\n"),
        text("{\"type\":\"ADDED\"}\n"),
        text("{\"object\":{}}\n"),
        text("{\"type\":\"BOOKMARK\",\"object\":{}}\n"),
        text("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}}\n"),
        text("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Service\",\"apiVersion\":\"v2\"}}\n"),
        text(&bookmark("6").replace("Service", "Pod")),
        // Cut off by the end of the body.
        protobuf(&whole[..3]),
        protobuf(&whole[..whole.len() - 1]),
        bytes(&[0, 0, 0, 3, 255, 255, 255]),
        bytes(&[255, 255, 255, 255, 1, 2, 3]),
        bytes(&(64 * 1024 * 1024 + 1_u32).to_be_bytes()),
        bytes(&wire::event("ADDED", &wire::metadata("a", "6"))),
        bytes(&wire::event("ADDED", b"")),
        bytes(&wire::event("ADDED", b"k8s\0\xff")),
        bytes(&wire::event("ADDED", &foreign)),
        bytes(&wire::event("BOOKMARK", &wire::enveloped(b""))),
        bytes(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"),
    ] {
        leads_to_a_list(answer);
    }
}

#[test]
fn an_event_of_an_object_without_a_name_leads_to_a_list() {
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        for object in [
            "null",
            "[]",
            "5",
            "\"x\"",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":"","namespace":"ns","resourceVersion":"6"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"6"}}"#,
            r#"{"metadata":{"name":["a"],"namespace":"ns","resourceVersion":"6"}}"#,
            r#"{"spec":5}"#,
        ] {
            leads_to_a_list(open(&[event(kind, object)]));
        }
        // An envelope without anything in it, and one whose metadata break off within the name.
        for object in [b"".as_slice(), b"\x0a\x05\x0a\x10a"] {
            let object = wire::typed(("v1", "Service"), object);
            leads_to_a_list(wire::streams(&[wire::event(kind, &object)]));
        }
    }
}

#[test]
fn a_line_of_100_mb_leads_to_a_list() {
    let megabytes = vec![Piece::Bytes(vec![b'a'; 10 * 1024 * 1024]); 10];
    leads_to_a_list(Reply::Answer(200, megabytes));
}

#[test]
fn a_message_that_never_ends_is_as_none() {
    // A length that is wrong, and bookmarks that are taken for the rest of the message.
    let mut drip = vec![Piece::Bytes(vec![0, 0x10, 0, 0, 1])];
    for _ in 0..20 {
        drip.extend([Piece::Wait(MINUTE / 4), Piece::Bytes(vec![0; 100])]);
    }
    let script = vec![
        ends(&listed_at("5")),
        Reply::Protobuf(200, drip),
        open(&[event("ADDED", &service("a", "9"))]),
    ];
    let steps = ["watch: listing, listed", "watch after=5"];
    check_for(SECOND * 179, script.clone(), &steps);
    let again = [&steps[..], &["watch after=5: set a"]].concat();
    check_for(MINUTE * 3 + SECOND * 2, script, &again);
}

#[test]
fn events_between_undecodable_messages_do_not_reset_their_count() {
    let lost = "what comes here may be lost\n";
    let answer = |version: &str| ends(&[bookmark(version), lost.to_owned()]);
    let mut script = vec![ends(&listed_at("5"))];
    script.extend(["6", "7", "8"].map(answer));
    script.push(open(&[end_of_list("9")]));
    check(
        script,
        &[
            "watch: listing, listed",
            "watch after=5: failed protocol error",
            "watch after=6: failed protocol error",
            "watch after=7: failed protocol error",
            "watch: listing, listed",
        ],
    );
}

#[test]
fn watches_that_always_fail_lead_to_a_list() {
    let error = r#"{"code":500,"reason":"InternalError","message":"bad event"}"#;
    for (answer, failure) in [
        (
            Reply::Answer(200, vec![Piece::Break]),
            "watch after=5: failed broken",
        ),
        (ends(&[event("ERROR", error)]), "watch after=5: failed 500"),
    ] {
        let mut script = vec![ends(&listed_at("5"))];
        script.extend(vec![answer; 3]);
        script.push(open(&[end_of_list("9")]));
        let list = "watch: listing, listed";
        check(script, &[list, failure, failure, failure, list]);
    }
}

/// A list like this is an error, and nothing that is known is given up.
#[track_caller]
fn is_not_a_list(reply: Reply) {
    check_for(
        Duration::from_secs(2),
        vec![status(400, "Invalid"), reply],
        &[
            "watch",
            "list limit=1000: failed protocol error",
            "list limit=1000",
        ],
    );
}

#[test]
fn a_list_of_another_kind_or_without_items_is_an_error() {
    let metadata = r#""metadata":{"resourceVersion":"7"}"#;
    for body in [
        String::new(),
        "{}".to_owned(),
        format!("{{{metadata}}}"),
        format!("{{{metadata},\"item\":[]}}"),
        format!("{{\"kind\":\"PodList\",{metadata},\"items\":[]}}"),
        format!("{{\"kind\":\"Service\",{metadata},\"items\":[]}}"),
        format!(
            "{{\"kind\":\"ServiceList\",\"apiVersion\":\"serving.knative.dev/v1\",{metadata},\"items\":[]}}"
        ),
        format!("{{\"kind\":\"Status\",\"code\":200,{metadata}}}"),
        format!("{{{metadata},\"items\":{{}}}}"),
        "[]".to_owned(),
        "<html></html>".to_owned(),
    ] {
        is_not_a_list(pieces(&[&body]));
    }
    // The same in protobuf, of Nodes, and what is none.
    for body in [
        b"k8s\0\x0a\x0e\x0a\x02v1\x12\x08NodeList\x12\x05\x0a\x03\x12\x017".as_slice(),
        b"",
        b"{}",
        b"k8s\0\xff",
        &LIST[..LIST.len() / 2],
    ] {
        is_not_a_list(protobuf(body));
    }
    // An empty message is an empty list, as it is for Go, but of no version.
    check(
        vec![status(400, "Invalid"), protobuf(b"k8s\0")],
        &[
            "watch",
            "list limit=1000: listing, failed protocol error",
            "list limit=1000",
        ],
    );
}

#[test]
fn other_compressions_and_media_types_are_errors() {
    let list = r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#;
    let reply = |headers| Reply::With(200, headers, vec![Piece::Text(list.to_owned())]);
    is_not_a_list(reply(vec![("content-encoding", "br")]));
    is_not_a_list(reply(vec![("content-encoding", "gzip")]));
    is_not_a_list(reply(vec![("content-type", "text/html; charset=utf-8")]));
    let fine = [
        vec![],
        vec![("content-type", "")],
        vec![("content-type", "Application/JSON; charset=UTF-8")],
        vec![
            ("content-encoding", "Identity"),
            ("content-type", "application/json"),
        ],
    ];
    for headers in fine {
        check(
            vec![status(400, "Invalid"), reply(headers), open(&[])],
            &["watch", "list limit=1000: listing, listed", "watch after=7"],
        );
    }
}

#[test]
fn media_types_are_case_insensitive() {
    let types = vec![(
        "content-type",
        "Application/VND.Kubernetes.Protobuf;Stream=Watch",
    )];
    let bytes = include_bytes!("../../../../tests/wire/watch.protobuf").to_vec();
    check(
        vec![Reply::With(200, types, vec![Piece::Bytes(bytes)])],
        &[
            "watch: listing, set cart, listed, deleted bare, failed expired",
            "watch",
        ],
    );
}

#[test]
fn a_slow_body_times_out() {
    let drip = |piece: &str, times| {
        let pieces = [Piece::Wait(MINUTE / 2), Piece::Text(piece.to_owned())];
        vec![pieces; times].concat()
    };
    // A page is given up after five minutes, and the body of an error after ten seconds.
    check_for(
        MINUTE * 5 + Duration::from_secs(20),
        vec![status(400, "Invalid"), Reply::Answer(200, drip(" ", 100))],
        &[
            "watch",
            "list limit=1000: failed protocol error",
            "list limit=1000",
        ],
    );
    check(
        vec![Reply::Answer(500, drip("sorry", 100))],
        &["watch: failed 500", "watch"],
    );
}
