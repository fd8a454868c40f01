//! HTTP replies as they are on the wire, to be compared.

/// A reply without what is another one each time: dates, and with them the length of the body,
/// which is checked instead. The order of header lines means nothing, and whether the connection
/// ends.
#[track_caller]
pub(crate) fn alike(reply: &str) -> String {
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.split("\r\n");
    let status = lines.next().expect("a status");
    let mut headers: Vec<&str> = lines
        .filter(|line| *line != "Connection: close")
        .map(|line| match line.split_once(": ") {
            Some(("Date", _)) => "Date",
            Some(("Content-Length", length)) => {
                // The answer to HEAD has no body.
                let is_right = body.is_empty() || length == body.len().to_string();
                assert!(is_right, "{reply}");
                "Content-Length"
            }
            _ => line,
        })
        .collect();
    headers.sort_unstable();
    let parts = body.split('"').map(|part| {
        let is_time = part.starts_with(|c: char| c.is_ascii_digit()) && part.ends_with('Z');
        if is_time { "TIME" } else { part }
    });
    let body = parts.collect::<Vec<_>>().join("\"");
    format!("{status}\n{}\n\n{body}", headers.join("\n"))
}
