#!/usr/bin/env bash
# Prints the software bill of materials of a binary, as CycloneDX JSON.
#
#   ./deploy/release/sbom.sh --arch amd64|arm64 --binary FILE
#
# It has every crate that is linked, with license and checksum, and the dependencies between them.
# Packages of the image are in the image, where scanners look for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh
. deploy/release/crates.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

arch=
binary=
while (($# > 0)); do
    case $1 in
        --arch) arch=${2:?} ;;
        --binary) binary=${2:?} ;;
        *) arch= ; break ;;
    esac
    shift 2
done
if [[ -z $arch || -z $binary ]]; then
    sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 64
fi

require_programs cargo:rust jq:jq sha256sum:coreutils
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
target=$(machine_of "$arch")-unknown-linux-musl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
linked_crates "$arch" >"$work/linked"
locked_crates >"$work/locked"
cargo metadata --locked --format-version 1 --filter-platform "$target" >"$work/metadata"
jq --sort-keys --rawfile linked "$work/linked" --rawfile locked "$work/locked" --arg arch "$arch" \
    --arg sha256 "$(sha256sum "$binary" | cut -d ' ' -f 1)" \
    --arg created "$(date --utc --date="@$epoch" +%Y-%m-%dT%H:%M:%SZ)" \
    --arg rust "$(rustc --version | cut -d ' ' -f 2)" \
    --from-file deploy/release/sbom.jq "$work/metadata"
