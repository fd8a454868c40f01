#!/usr/bin/env bash
# Makes the files of a release, or verifies them.
#
#   ./deploy/release.sh [--fetch | --verify [--rebuild]] [--output DIR] [--profile NAME] [--tag TAG]
#
# Defaults: the folder .cache/release; Cargo's profile `release`. With --fetch, only downloads what
# a release is made of; everything else works offline. With --verify, only checks the files in the
# folder; with --rebuild, also compiles the binaries again in another folder, and compares them. With
# --tag, fails unless the tag, the version of Cargo.toml and the changelog agree, and all files are
# committed.
#
# Two runs at one commit make the same bytes. STATIC_BINARIES, REVISION, SOURCE_DATE_EPOCH and
# SOURCE_URL in the environment work as for deploy/image/build.sh. deploy/docs/release.md lists the
# files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/image/debian.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
readonly arches=(amd64 arm64)
action='make'
output=.cache/release
profile=release
rebuild=no
tag=
while (($# > 0)); do
    case $1 in
        --fetch | --verify) action=${1#--}; shift; continue ;;
        --rebuild) rebuild=yes; shift; continue ;;
        --output) output=${2:?} ;;
        --profile) profile=${2:?} ;;
        --tag) tag=${2:?} ;;
        *) sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
    esac
    shift 2
done

fetch() {
    local arch target
    for arch in "${arches[@]}"; do
        target=$(machine_of "$arch")-unknown-linux-musl
        [[ -d $(rustc --print target-libdir --target "$target") ]] || rustup target add "$target"
        cargo fetch --locked --target "$target"
        fetch_packages "$arch" base >/dev/null
        fetch_packages "$arch" musl >/dev/null
    done
}

check_tag() {
    [[ $tag == "v$version" ]] ||
        fail "release.sh: --tag: \`$tag\` is not the version of Cargo.toml, v$version"
    grep -q "^## $tag\( \|$\)" deploy/CHANGELOG.md ||
        fail "release.sh: --tag: deploy/CHANGELOG.md has no section \`## $tag\`"
    [[ -z $(git status --porcelain) ]] ||
        fail "release.sh: --tag: files differ from the commit" "hint: see \`git status\`"
}

# pack FOLDER TREE : writes the tree in the folder as a tar file to stdout. The result depends on
# names, contents and modes only.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        -C "$1" -c "$2"
}

# Prints the path of the binary that runs here: manual pages and completions are the same for all.
native_binary() {
    case $(uname -m) in
        x86_64) echo "$work/amd64/usr/local/bin/deltaproxy" ;;
        aarch64) echo "$work/arm64/usr/local/bin/deltaproxy" ;;
        *) fail "release.sh: cannot run the binaries on $(uname -m)" ;;
    esac
}

# Writes manual pages and completions, where each shell looks for them below /usr or /usr/local.
write_share() {
    local share=$work/share binary
    binary=$(native_binary)
    mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    "$binary" man --dir "$share/man/man1"
    "$binary" completions bash >"$share/bash-completion/completions/deltaproxy"
    "$binary" completions zsh >"$share/zsh/site-functions/_deltaproxy"
    "$binary" completions fish >"$share/fish/vendor_completions.d/deltaproxy.fish"
}

# write_archive ARCH : the binary, manual pages, completions and licenses.
write_archive() {
    local name=deltaproxy-v$version-linux-$1
    local tree=$work/trees/$name
    mkdir -p "$tree/bin" "$tree/share/doc"
    cp "$work/$1/usr/local/bin/deltaproxy" "$tree/bin"
    cp -r "$work/share/." "$tree/share"
    cp -r "$work/$1/usr/share/doc/deltaproxy" "$tree/share/doc"
    cp deploy/CHANGELOG.md "$tree/share/doc/deltaproxy"
    chmod -R u=rwX,go=rX "$tree"
    pack "$work/trees" "$name" | gzip --no-name >"$set/$name.tar.gz"
    deploy/release/sbom.sh --arch "$1" --binary "$tree/bin/deltaproxy" >"$set/$name.cdx.json"
}

write_image() {
    local name=deltaproxy-v$version-image printed
    printed=$(deploy/image/build.sh --profile "$profile" --output "$work/image")
    tail -n 1 <<<"$printed" | sed 's/ in .*//' >"$set/$name.digest"
    chmod -R u=rwX,go=rX "$work/image"
    pack "$work/image" . >"$set/$name.tar"
}

[[ $rebuild == no || $action == verify ]] || fail "release.sh: --rebuild requires --verify"
if [[ $action == verify ]]; then
    deploy/release/verify.sh "$output" "v$version"
    [[ $rebuild == no ]] || deploy/release/rebuild.sh "$output" "v$version" "$profile"
    exit
fi
[[ -z $tag ]] || check_tag
require_programs cargo:rust jq:jq gzip:gzip tar:tar sha256sum:coreutils
if [[ $action == fetch ]]; then
    fetch
    exit
fi
export CARGO_NET_OFFLINE=true
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
# Files of the image are not writable, which does not matter to root only.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
set=$work/set
mkdir "$set"
for arch in "${arches[@]}"; do
    deploy/image/program.sh --arch "$arch" --output "$work/$arch" --profile "$profile"
done
write_share
for arch in "${arches[@]}"; do
    write_archive "$arch"
done
deploy/release/krew.sh "$set" "v$version" "${SOURCE_URL:-https://example.com/deltaproxy}" \
    >"$set/deltaproxy-v$version-krew.yaml"
write_image
(cd "$set" && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$set"
chmod -R u=rwX,go=rX "$set"
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv "$set" "$output"
cat "$output/SHA256SUMS"
