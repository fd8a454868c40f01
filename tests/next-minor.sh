#!/usr/bin/env bash
# Prints what differs for deltaproxy between two releases of Kubernetes, from their sources.
#
#   ./tests/next-minor.sh OLD NEW | --newest     1.36.3 1.37.2
#
# Each change is followed by the `Upstream:` lines of ours that name it. --newest compares the release
# of tests/support/kube with the newest one. The modules of both are fetched into Go's module cache.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Where Go's archive puts its programs: only login shells look there by themselves.
export PATH=$PATH:/usr/local/go/bin
export GOWORK=off GOFLAGS=-mod=mod

usage() {
    sed -n '4s,^# *,usage: ,p' "$root/tests/next-minor.sh" >&2
    exit 64
}

# The newest release without a pre-release suffix.
newest() {
    go list -m -versions -f '{{range .Versions}}{{println .}}{{end}}' k8s.io/kubernetes |
        grep -E '^v[0-9.]+$' | sort -V | tail -n 1
}

cd "$root/tests/support/next_minor"
case "${1-} $#" in
    "--newest 1")
        old=$(sed -nE 's,^\s*k8s\.io/kubernetes v,,p' ../kube/go.mod)
        new=$(newest)
        set -- "$old" "${new#v}"
        if [[ $1 == "$2" ]]; then
            echo "Kubernetes $1 is the newest release, and is followed."
            exit
        fi
        ;;
    *" 2") ;;
    *) usage ;;
esac
for version; do
    if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
        echo "next-minor.sh: \`$version\` is not a valid version (example: 1.37.2)" >&2
        exit 64
    fi
done

# Built, because the exit status of `go run` is not that of the program.
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" .
"$program" "$root" "$@"
