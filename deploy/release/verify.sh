#!/usr/bin/env bash
# Verifies the files of a release against each other and against Cargo.lock.
#
#   ./deploy/release/verify.sh DIR VERSION
#
# Reports every mistake, and exits with 1 if there is one. Needs neither the network nor a compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh
. deploy/release/crates.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin CARGO_NET_OFFLINE=true

readonly set=${1:?} prefix=deltaproxy-${2:?} version=$2
readonly arches=(amd64 arm64)
mistakes=0

complain() {
    echo "release.sh: $*" >&2
    mistakes=$((mistakes + 1))
}

# complain_of TEXT : one mistake for each line of stdin. Behind a pipe they would not be counted.
complain_of() {
    local line
    while read -r line; do complain "$1$line"; done
}

expected_files() {
    local arch
    for arch in "${arches[@]}"; do printf '%s\n' "$prefix-linux-$arch".{cdx.json,tar.gz}; done
    printf '%s\n' "$prefix-image".{digest,tar} "$prefix-krew.yaml" SHA256SUMS
}

check_files() {
    expected_files | sort >"$work/expected"
    find "$set" -mindepth 1 -printf '%P\n' | sort >"$work/found"
    comm -23 "$work/expected" "$work/found" >"$work/missing"
    comm -13 "$work/expected" "$work/found" >"$work/extra"
    complain_of "missing file: " <"$work/missing"
    complain_of "file that is not part of a release: " <"$work/extra"
    [[ ! -s $work/missing ]] || return 1
    comm -3 <(grep -v SHA256SUMS "$work/expected") <(cut -c 67- "$set/SHA256SUMS" | sort) \
        >"$work/unlisted"
    complain_of "SHA256SUMS: listed and expected files differ: " <"$work/unlisted"
    (cd "$set" && sha256sum --check --quiet SHA256SUMS 2>/dev/null || true) |
        sed 's/: FAILED.*//' >"$work/damaged"
    complain_of "checksum differs: " <"$work/damaged"
    [[ ! -s $work/unlisted && ! -s $work/damaged ]]
}

# Manual pages are as many as commands, so that one is named and all are counted.
expected_contents() {
    local name
    for name in copyright Apache-2.0 NOTICE CHANGELOG.md third-party.txt musl.txt rust.html; do
        echo "share/doc/deltaproxy/$name"
    done
    echo bin/deltaproxy
    echo share/bash-completion/completions/deltaproxy
    echo share/zsh/site-functions/_deltaproxy
    echo share/fish/vendor_completions.d/deltaproxy.fish
    echo share/man/man1/deltaproxy.1
    # The page of the program names those of its commands.
    grep -o 'deltaproxy\\-[a-z]*' "$work/$1/share/man/man1/deltaproxy.1" 2>/dev/null |
        sed 's,\(.*\)\\-\(.*\),share/man/man1/\1-\2.1,' | sort -u
}

check_archive() {
    local archive=$prefix-linux-$1.tar.gz tree=$work/$1
    mkdir "$tree"
    tar -xzf "$set/$archive" -C "$tree" --strip-components=1 --no-same-owner || {
        complain "$archive: cannot unpack"
        return
    }
    [[ $(tar -tzf "$set/$archive" | cut -d / -f 1 | sort -u) == "$prefix-linux-$1" ]] ||
        complain "$archive: must unpack into one folder, $prefix-linux-$1"
    comm -3 <(expected_contents "$1" | sort) <(cd "$tree" && find . ! -type d -printf '%P\n' | sort) |
        sed 's/^\t/unexpected: /; t; s/^/missing: /' >"$work/contents"
    complain_of "$archive: " <"$work/contents"
    find "$tree" -type f -empty -printf '%P\n' >"$work/empty"
    complain_of "$archive: empty: " <"$work/empty"
    check_binary "$1" "$archive"
}

check_binary() {
    local binary=$work/$1/bin/deltaproxy machine printed
    machine=$(machine_of "$1")
    readelf --file-header "$binary" 2>/dev/null | tr _ - | grep -qi "machine:.*${machine/_/-}" ||
        complain "$2: bin/deltaproxy is not a program for $machine"
    [[ $machine == "$(uname -m)" ]] || return 0
    printed=$("$binary" --version) || true
    [[ $printed == "deltaproxy ${version#v}"* ]] ||
        complain "$2: bin/deltaproxy prints another version: $printed"
}

# Crates must be those of the manifest, and those whose source paths are in the binary.
check_sbom() {
    local sbom=$prefix-linux-$1.cdx.json doc=$work/$1/share/doc/deltaproxy digest
    jq -r '.components[] | select(.purl // "" | startswith("pkg:cargo/"))
        | "\(.name) \(.version) \(.hashes[0].content)"' "$set/$sbom" | sort >"$work/listed" || {
        complain "$sbom: cannot be read"
        return
    }
    linked_crates "$1" | sort >"$work/linked"
    [[ -s $work/linked ]] || complain "$sbom: cannot list the crates of Cargo.lock"
    join -j 1 <(tr ' ' / <"$work/linked" | sort) \
        <(locked_crates | sed 's, ,/,' | sort) | tr / ' ' >"$work/expected"
    comm -3 <(sort "$work/expected") "$work/listed" |
        sed 's/^\t/not linked or with another checksum: /; t; s/^/missing crate: /' >"$work/crates"
    complain_of "$sbom: " <"$work/crates"
    grep -aoE '/registry/src/[^/]*/[A-Za-z0-9_-]+-[0-9]+\.[0-9]+\.[0-9]+[^/]*/' \
        "$work/$1/bin/deltaproxy" |
        sed -E 's,.*/(.*)-([0-9]+\.[0-9]+\.[0-9]+.*)/$,\1 \2,' | sort -u >"$work/seen"
    [[ -s $work/seen ]] || complain "$sbom: the binary names no crate"
    comm -13 <(cut -d ' ' -f 1,2 "$work/listed" | sort) "$work/seen" >"$work/crates"
    complain_of "$sbom: missing crate, whose path is in the binary: " <"$work/crates"
    sed -nE 's/^==== ([^ ]+ [^ ]+): .*/\1/p' "$doc/third-party.txt" | sort >"$work/licensed"
    comm -23 <(cut -d ' ' -f 1,2 "$work/listed" | sort) "$work/licensed" >"$work/crates"
    complain_of "third-party.txt: no license of the crate " <"$work/crates"
    digest=$(sha256 "$work/$1/bin/deltaproxy")
    [[ $(jq -r '.metadata.component.hashes[0].content' "$set/$sbom") == "$digest" ]] ||
        complain "$sbom: describes another binary than that of the archive"
}

sha256() { sha256sum "$1" | cut -d ' ' -f 1; }

# Its only value that the archives do not have is the address that they are downloaded from.
check_krew() {
    local manifest=$prefix-krew.yaml source
    source=$(sed -n 's/^  homepage: //p' "$set/$manifest")
    cmp -s <(deploy/release/krew.sh "$set" "$version" "${source:-none}") "$set/$manifest" ||
        complain "$manifest: is not that of the archives"
}

check_image() {
    local image=$prefix-image.tar layout=$work/image blobs=$work/image/blobs/sha256 blob digest arch
    mkdir "$layout"
    tar -xf "$set/$image" -C "$layout" --no-same-owner || {
        complain "$image: cannot unpack"
        return
    }
    for blob in "$blobs"/*; do
        [[ $(sha256 "$blob") == "${blob##*/}" ]] || complain "$image: blob ${blob##*/} has another digest"
    done
    digest=$(jq -r '.manifests[0].digest' "$layout/index.json")
    [[ $(<"$set/$prefix-image.digest") == */deltaproxy:"$version@$digest" ]] ||
        complain "$prefix-image.digest: the image has the tag $version and the digest $digest"
    for arch in "${arches[@]}"; do
        check_platform "$blobs" "${digest#*:}" "$arch"
    done
}

# The program of the image must be that of the archive. Its layer is the last one.
check_platform() {
    local manifest layer
    manifest=$(jq -r --arg arch "$3" \
        '.manifests[] | select(.platform.architecture == $arch) | .digest' "$1/$2")
    layer=$(jq -r '.layers[-1].digest' "$1/${manifest#*:}")
    tar -xzOf "$1/${layer#*:}" ./usr/local/bin/deltaproxy >"$work/program" || true
    cmp -s "$work/program" "$work/$3/bin/deltaproxy" ||
        complain "$prefix-image.tar: the program for $3 is not that of the archive"
}

require_programs cargo:rust jq:jq gzip:gzip tar:tar sha256sum:coreutils readelf:binutils
[[ -d $set ]] || fail "release.sh: cannot read the folder $set: no such folder" \
    "hint: make it with \`deploy/release.sh --output $set\`"
export LC_ALL=C
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
# What is inside is checked only if each file is complete.
if check_files; then
    for arch in "${arches[@]}"; do
        check_archive "$arch"
        check_sbom "$arch"
    done
    check_krew
    check_image
fi
((mistakes == 0)) || fail "release.sh: $set has mistakes: $mistakes"
echo "release.sh: $set is complete"
