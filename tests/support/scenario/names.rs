//! Chain names, computed here a second time so that scenarios can name what they mean.

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

const KINDS: [&str; 5] = ["SVC", "SVL", "EXT", "FW", "SEP"];

/// `KUBE-SVC-...` for `SVC(ns1/svc1:p80)` and so on, wherever it stands in the line.
pub(crate) fn expand(line: &str) -> Result<String, String> {
    let mut out = line.to_owned();
    for kind in KINDS {
        let opening = format!("{kind}(");
        while let Some(start) = out.find(&opening) {
            let from = start + opening.len();
            let length = out.get(from..).and_then(|rest| rest.find(')'));
            let length = length.ok_or_else(|| format!("`{opening}` does not end"))?;
            let inner = out.get(from..from + length).unwrap_or_default();
            let name = chain_name(kind, inner);
            out.replace_range(start..=from + length, &name);
        }
    }
    Ok(out)
}

/// The name of a chain; `of` is `ns/name:port/protocol`, for endpoints with `,ip:port`.
fn chain_name(kind: &str, of: &str) -> String {
    let (port, endpoint) = of.split_once(',').unwrap_or((of, ""));
    let (port, protocol) = match port.rsplit_once('/') {
        Some((port, protocol @ ("tcp" | "udp" | "sctp"))) => (port, protocol),
        _ => (port, "tcp"),
    };
    let digest = Sha256::digest(format!("{port}{protocol}{endpoint}").as_bytes());
    let text = BASE32.encode(&digest);
    format!("KUBE-{kind}-{}", text.get(..16).unwrap_or_default())
}

/// The line with chain names in the words of the scenario, where it has words for them.
pub(crate) fn collapse(line: &str, scenario: &str) -> String {
    let mut out = line.to_owned();
    for kind in KINDS {
        for (start, opening) in scenario.match_indices(&format!("{kind}(")) {
            let rest = scenario.get(start + opening.len()..).unwrap_or_default();
            if let Some((inner, _)) = rest.split_once(')') {
                out = out.replace(&chain_name(kind, inner), &format!("{opening}{inner})"));
            }
        }
    }
    out
}
