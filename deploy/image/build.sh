#!/usr/bin/env bash
# Builds the image as an OCI layout, without a registry and without privileges.
#
#   ./deploy/image/build.sh [--arch ARCH]... [--name NAME:TAG] [--output DIR] [--profile NAME] [--lock]
#
# Defaults: both amd64 and arm64; the registry of examples and the version of Cargo.toml; the folder
# .cache/image/oci; the profile `release`. With --lock, only updates packages.lock.
#
# Two builds of one commit have the same digest, which is printed. Environment variables: SOURCE_URL,
# REVISION and SOURCE_DATE_EPOCH replace the labels' values, of which the last two are from Git;
# DEBIAN_MIRROR replaces the mirror that apt uses here, and DEBIAN_SNAPSHOTS is an archive to look in
# next; STATIC_BINARIES names a folder with ARCH/deltaproxy, so that nothing is compiled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/image/debian.sh

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arches=()
name=registry.example.com/deltaproxy/deltaproxy:v$version
output=.cache/image/oci
profile=release
while (($# > 0)); do
    case $1 in
        --lock) write_lock; exit ;;
        --arch) arches+=("${2:?}") ;;
        --name) name=${2:?} ;;
        --output) output=${2:?} ;;
        --profile) profile=${2:?} ;;
        *) sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
    esac
    shift 2
done
((${#arches[@]} > 0)) || arches=(amd64 arm64)
tag=${name##*:}
[[ $name == */*:* && $tag != */* ]] ||
    fail "build.sh: --name: \`$name\` is not a valid image name: must be REGISTRY/NAME:TAG"

revision=${REVISION:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date --utc --date="@$epoch" +%Y-%m-%dT%H:%M:%SZ)

# add_blob FILE : moves a file into the layout, and prints its digest.
add_blob() {
    local digest
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    mv "$1" "$layout/blobs/sha256/$digest"
    echo "sha256:$digest"
}

size_of() { stat --format=%s "$layout/blobs/sha256/${1#sha256:}"; }

# descriptor TYPE DIGEST : prints a reference to a blob as JSON.
descriptor() {
    jq -cn --arg type "application/vnd.oci.image.$1" --arg digest "$2" --argjson size \
        "$(size_of "$2")" '{mediaType: $type, digest: $digest, size: $size}'
}

# add_layer FOLDER SECONDS : adds a folder as a layer; prints the digest of the tar file, then the
# descriptor of the compressed one. The result depends on names, contents and modes only.
add_layer() {
    chmod -R u=rwX,go=rX "$1"
    # Nothing is writable, by root neither, nor has other rights than to be read or run.
    find "$1" ! -type l -exec chmod a-w,u-s,g-s {} +
    tar --sort=name --mtime="@$2" --owner=0 --group=0 --numeric-owner --format=gnu \
        -C "$1" -cf "$work/layer" .
    echo "sha256:$(sha256sum "$work/layer" | cut -d ' ' -f 1)"
    gzip --no-name <"$work/layer" >"$work/layer.gz"
    descriptor layer.v1.tar+gzip "$(add_blob "$work/layer.gz")"
}

labels() {
    jq -cn --arg version "$version" --arg revision "$revision" --arg created "$created" \
        --arg source "${SOURCE_URL:-https://example.com/deltaproxy}" \
        --arg description "$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)" \
        '{title: "deltaproxy", $description, $version, $revision, $created, $source,
          licenses: "Apache-2.0"}
         | with_entries(.key = "org.opencontainers.image." + .key)'
}

# add_image ARCH : adds the image of one architecture, and prints its descriptor.
add_image() {
    local arch=$1 base program
    deploy/image/base.sh --arch "$arch" --output "$work/$arch-base"
    deploy/image/program.sh --arch "$arch" --output "$work/$arch-program" --profile "$profile"
    # Without the time of the commit, so that a registry keeps the base once for all versions.
    mapfile -t base < <(add_layer "$work/$arch-base" 0)
    mapfile -t program < <(add_layer "$work/$arch-program" "$epoch")
    jq -cn --arg created "$created" --arg arch "$arch" --argjson labels "$(labels)" \
        --arg base "${base[0]}" --arg program "${program[0]}" '{
        $created, architecture: $arch, os: "linux",
        config: {
            User: "0:0", WorkingDir: "/", Entrypoint: ["/usr/local/bin/deltaproxy"], Cmd: ["run"],
            Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            Labels: $labels},
        rootfs: {type: "layers", diff_ids: [$base, $program]},
        history: [{$created, created_by: "deploy/image/base.sh"},
                  {$created, created_by: "deploy/image/program.sh"}]}' >"$work/config"
    jq -cn --argjson config "$(descriptor config.v1+json "$(add_blob "$work/config")")" \
        --argjson base "${base[1]}" --argjson program "${program[1]}" --argjson labels "$(labels)" '{
        schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
        $config, layers: [$base, $program], annotations: $labels}' >"$work/manifest"
    descriptor manifest.v1+json "$(add_blob "$work/manifest")" |
        jq -c --arg arch "$arch" '. + {platform: {architecture: $arch, os: "linux"}}'
}

require_programs jq:jq gzip:gzip tar:tar sha256sum:coreutils
work=$(mktemp -d)
# Its files are not writable, which does not matter to root only.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
layout=$work/layout
mkdir -p "$layout/blobs/sha256"
for arch in "${arches[@]}"; do
    machine_of "$arch" >/dev/null
    add_image "$arch" >"$work/$arch.json"
done
files=("${arches[@]/#/$work/}")
jq -cs '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' \
    "${files[@]/%/.json}" >"$work/index"
digest=$(add_blob "$work/index")
# The tag is all architectures; containerd takes the whole name from its own annotation.
{
    descriptor index.v1+json "$digest" | jq -c --arg tag "$tag" --arg name "$name" '. + {annotations: {
        "io.containerd.image.name": $name, "org.opencontainers.image.ref.name": $tag}}'
    for arch in "${arches[@]}"; do
        jq -c --arg tag "$tag-$arch" \
            '. + {annotations: {"org.opencontainers.image.ref.name": $tag}}' "$work/$arch.json"
    done
} | jq -cs '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' \
    >"$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
mkdir -p "$(dirname "$output")"
rm -rf "$output"
mv "$layout" "$output"
echo "$name@$digest in $output"
