# Turns the output of `cargo metadata` into a bill of materials. Arguments: `linked`, lines of a name
# and a version; `locked`, the same with a checksum; `arch`; `sha256` of the binary; `created`, a
# time; `rust`, its version.

def rows: split("\n") | map(select(. != "") | split(" "));
def reference: "pkg:cargo/\(.name)@\(.version | @uri)";
# A slash is an old spelling of OR.
def expression: [{expression: gsub(" *\\/ *"; " OR ")}];

($linked | rows | map({key: join(" "), value: true}) | from_entries) as $is_linked
| ($locked | rows | map({key: "\(.[0]) \(.[1])", value: .[2]}) | from_entries) as $checksums
| (.packages | map(select(.source == null))[0]) as $root
| (.packages | map(select($is_linked["\(.name) \(.version)"])) | sort_by(.name, .version)) as $crates
| ([$root] + $crates | map({key: .id, value: reference}) | from_entries) as $references
| ("pkg:generic/rust-std@" + $rust) as $std
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
        timestamp: $created,
        component: {
            type: "application", name: $root.name, version: $root.version,
            "bom-ref": ($root | reference), purl: ($root | reference + "?arch=\($arch)"),
            description: $root.description, licenses: ($root.license | expression),
            hashes: [{alg: "SHA-256", content: $sha256}]
        }
    },
    components: (
        ($crates | map({
            type: "library", name, version, "bom-ref": reference, purl: reference,
            licenses: (.license | expression),
            hashes: [{alg: "SHA-256", content: $checksums["\(.name) \(.version)"]}]
        }))
        + [{
            type: "library", name: "musl", "bom-ref": "musl",
            description: "C library, the copy that the standard library of Rust comes with",
            licenses: ("MIT" | expression)
        }, {
            type: "library", name: "rust-std", version: $rust, "bom-ref": $std, purl: $std,
            description: "Standard library of Rust", licenses: ("MIT OR Apache-2.0" | expression)
        }]),
    dependencies: (
        (.resolve.nodes | map(select($references[.id]) | {
            ref: $references[.id],
            dependsOn: (.deps
                | map(select(any(.dep_kinds[]; .kind == null)) | $references[.pkg] | values)
                | unique)
        }) | map(if .ref == ($root | reference) then .dependsOn += ["musl", $std] else . end))
        + [{ref: "musl"}, {ref: $std}]
        | sort_by(.ref))
}
