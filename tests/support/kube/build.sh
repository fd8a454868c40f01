#!/usr/bin/env bash
# Builds programs of an older minor release of Kubernetes, one of minors.txt, for tests/soak.sh.
#
#   ./tests/support/kube/build.sh MINOR PROGRAM...     1.33 kube-proxy kube-apiserver
#
# Programs go to .cache/kube-MINOR; those that are there are kept. tests/run.sh builds the programs of
# the newest release from the go.mod next to this file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Where Go's archive puts its programs: only login shells look there by themselves.
export PATH=$PATH:/usr/local/go/bin
# One package at a time: the large ones need a gigabyte of memory each.
export GOWORK=off GOTOOLCHAIN=local GOFLAGS=-p=1 CGO_ENABLED=0

if (($# < 2)); then
    sed -n '4s,^# *,usage: ,p' "${BASH_SOURCE[0]}" >&2
    exit 64
fi
minor=$1
shift
if ! read -r _ version digest substitutes < <(grep -E "^${minor//./\\.} " minors.txt); then
    echo "build.sh: unknown minor release \`$minor\`; use one of minors.txt" >&2
    exit 64
fi
cache=$(realpath -m "../../../.cache/kube-$minor")
missing=()
for program; do
    [[ -x $cache/$program ]] || missing+=("$program")
done
if ((${#missing[@]} == 0)); then exit 0; fi

module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
mkdir -p "$cache"

# Writes the module that the programs are built in: the release as its only requirement. Kubernetes'
# own go.mod replaces its staging modules by folders of its repository, which are not part of the
# module; each is published as a module of its own, whose v0.33.1 belongs to Kubernetes v1.33.1.
write_module() {
    local source substitute
    source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    {
        echo "module deltaproxy.test/kube"
        # Decides compatibility settings of the language and of the standard library.
        grep -E '^(go|godebug) ' "$source/go.mod"
        echo "require k8s.io/kubernetes $version"
        sed -nE "s,^\s*(k8s\.io/[a-z-]+) => \./staging/.*,replace \1 => \1 v0${version#v1},p" "$source/go.mod"
    } >go.mod
    for substitute in $substitutes; do
        sed -i -E "s,=> k8s\.io/${substitute%@*} .*,=> k8s.io/${substitute/@/ }," go.mod
    done
    cp "$source/go.sum" go.sum
    chmod u+w go.sum
    # Adds the sums of the staging modules, from Go's checksum database. Packages, and so sums,
    # depend on the platform: always the same one, for a digest that is the same everywhere.
    local packages=(k8s.io/kubernetes/cmd/kube-proxy)
    # v1.31 has no kube-apiserver here: some of its modules are missing from the module proxy.
    [[ $minor == 1.31 ]] || packages+=(k8s.io/kubernetes/cmd/kube-apiserver)
    GOOS=linux GOARCH=amd64 go list -mod=mod -deps "${packages[@]}" >/dev/null
}

check_sums() {
    local actual
    actual=$(sha256sum go.sum | cut -d ' ' -f 1)
    if [[ $actual != "$digest" ]]; then
        echo "build.sh: go.sum of $version: SHA-256 $actual differs from $digest in minors.txt" >&2
        return 1
    fi
}

cd "$module"
write_module
check_sums
flags=k8s.io/component-base/version
flags="-X $flags.gitVersion=$version -X $flags.gitMajor=1 -X $flags.gitMinor=${minor#1.}"
for program in "${missing[@]}"; do
    go build -mod=readonly -trimpath -ldflags "$flags" -o "$program" "k8s.io/kubernetes/cmd/$program"
    # Moved when it is complete: an interrupted build leaves nothing that looks like a program.
    mv "$program" "$cache/"
done
