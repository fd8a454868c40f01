#!/usr/bin/env bash
# Compiles the binaries of a release again, in another folder, and compares them.
#
#   ./deploy/release/rebuild.sh DIR VERSION PROFILE
#
# Works offline on a machine that can make a release of the same files. Reports every binary that
# differs, and exits with 1 if there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin CARGO_NET_OFFLINE=true

readonly set=${1:?} prefix=deltaproxy-${2:?} profile=${3:?}
different=0

# compare ARCH : compiles the binary, and compares it with that of the archive.
compare() {
    local name=$prefix-linux-$1 binary made
    binary=$("$source/deploy/image/binary.sh" --arch "$1" --profile "$profile")
    tar -xzOf "$set/$name.tar.gz" "$name/bin/deltaproxy" >"$work/$1"
    ! cmp -s "$binary" "$work/$1" || return 0
    echo "release.sh: $name.tar.gz: bin/deltaproxy differs from what is compiled here" >&2
    made=$(jq -r '.components[] | select(.name == "rust-std").version' "$set/$name.cdx.json")
    [[ $made == "$rust" ]] || echo "hint: it was compiled by Rust $made; here is Rust $rust" >&2
    different=$((different + 1))
}

require_programs cargo:rust jq:jq tar:tar cmp:diffutils
rust=$(rustc --version | cut -d ' ' -f 2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/source
mkdir -p "$source/.cache/image"
tar --exclude=./.cache --exclude=./.git --exclude=./target -c . | tar -C "$source" -x
# Packages have checksums. The compilers that are made of them have paths, and are made again.
mkdir -p "$deb_cache"
cp -r "$deb_cache" "$source/$deb_cache"
export CARGO_TARGET_DIR=$work/target
for arch in amd64 arm64; do
    compare "$arch"
done
((different == 0)) || fail "release.sh: binaries of $set that differ: $different"
echo "release.sh: the binaries of $set are what is compiled here"
