//! Arbitrary bytes in a manifest.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::hostile::{cases, mutated};
use crate::watch::manifests::merge::merge;
use crate::watch::manifests::{ManifestOptions, Validation};
use crate::watch::{Ingester, change_channels};

fn samples() -> Vec<Vec<u8>> {
    let files: [&[u8]; 6] = [
        include_bytes!("../../../tests/golden/diff/before.yaml"),
        include_bytes!("../../../tests/explain/min.yaml"),
        include_bytes!("../../../tests/wire/service.json"),
        include_bytes!("../../../tests/wire/node.json"),
        b"kind: List\nitems:\n- &a {kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1}}\n- *a\n",
        b"{\"kind\": \"ServiceList\", \"apiVersion\": \"v1\", \"items\": [{\"metadata\": {\"name\": \"a\"}}]}",
    ];
    files.iter().map(|file| file.to_vec()).collect()
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_manifest_is_parsed_or_rejected_in_one_line(text in mutated(samples())) {
        match parse(Path::new("a.yaml"), &text, ParseOptions::LENIENT) {
            Ok(content) => {
                let options = ManifestOptions::new("here".into());
                let manifests = merge([(Path::new("a.yaml"), &content)].into_iter(), &options, Validation::Lenient, None);
                let (senders, _receivers) = change_channels(None);
                manifests.send(&mut Ingester::for_command(senders, "here".into()));
            }
            Err(error) => prop_assert!(!error.reason.contains('\n'), "{error:?}"),
        }
    }
}
