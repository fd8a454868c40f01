#!/usr/bin/env bash
# Writes the files that the image adds to its base: the binary, its second name, and licenses.
#
#   ./deploy/image/program.sh --arch amd64|arm64 --output DIR [--profile NAME]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

arch=
output=
profile=release
while (($# > 0)); do
    case $1 in
        --arch) arch=${2:?} ;;
        --output) output=${2:?} ;;
        --profile) profile=${2:?} ;;
        *) arch= ; break ;;
    esac
    shift 2
done
if [[ -z $arch || -z $output ]]; then
    sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 64
fi

# Prints the license files of every crate in the binary, sorted by name and version.
crate_licenses() {
    local target name version license manifest files file
    target=$(machine_of "$arch")-unknown-linux-musl
    cargo metadata --locked --format-version 1 --filter-platform "$target" >"$work/metadata"
    # `cargo tree` knows which packages are in the binary, `cargo metadata` where their files are.
    cargo tree --locked --target "$target" --edges normal --prefix none --format '{p}' |
        awk '{ sub(/^v/, "", $2); print $1, $2 }' | LC_ALL=C sort -u >"$work/crates"
    jq -r '.packages[] | [.name, .version, .license // "", .manifest_path] | @tsv' "$work/metadata" |
        LC_ALL=C sort | while IFS=$'\t' read -r name version license manifest; do
        [[ $name != deltaproxy ]] || continue
        grep -qxF "$name $version" "$work/crates" || continue
        printf '==== %s %s: %s ====\n\n' "$name" "$version" "$license"
        # Two levels: the allocator in C lies in a folder of its crate.
        files=$(find "${manifest%/*}" -maxdepth 2 -type f \
            \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'copyright*' \) |
            LC_ALL=C sort)
        if [[ -n $files ]]; then
            while read -r file; do cat "$file"; echo; done <<<"$files"
        elif [[ $license == *Apache-2.0* ]]; then
            # Other licenses oblige to pass on the lines with the copyright, which are only in the file.
            printf 'The crate has no file with its license. The text of Apache-2.0 is in this folder.\n\n'
        else
            fail "program.sh: the crate $name $version ($license) has no file with its license"
        fi
    done
}

write_licenses() {
    local doc=$output/usr/share/doc/deltaproxy
    mkdir -p "$doc"
    cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: deltaproxy

Files: *
Copyright: the authors of deltaproxy
License: Apache-2.0
 The text of the license is in the file Apache-2.0 in this folder. Licenses of libraries
 in the binary are in third-party.txt, musl.txt and rust.html next to it.
END
    cp deploy/LICENSE "$doc/Apache-2.0"
    cp deploy/NOTICE "$doc/NOTICE"
    dpkg-deb --fsys-tarfile "$(fetch_packages "$arch" musl)" |
        tar -xO ./usr/share/doc/musl-dev/copyright >"$doc/musl.txt"
    cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$doc/rust.html"
    crate_licenses >"$doc/third-party.txt"
}

require_programs cargo:rust jq:jq dpkg-deb:dpkg tar:tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binary=$(deploy/image/binary.sh --arch "$arch" --profile "$profile")
mkdir -p "$output/usr/local/bin"
install -m 0555 "$binary" "$output/usr/local/bin/deltaproxy"
# Under this name the program takes kube-proxy's command line.
ln -sf deltaproxy "$output/usr/local/bin/kube-proxy"
write_licenses
