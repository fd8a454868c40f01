#!/usr/bin/env bash
# Runs every check and every test, the kernel and end-to-end ones too.
#
#   ./tests/run.sh [FILTER]     FILTER is handed to `cargo test`
#
# Wants root on a Debian-like machine with Rust and Go. Installs what else is missing, and builds
# etcd, kube-apiserver and kube-proxy once, into .cache/kube (or uses those in KUBE_BIN_DIR).
# Traffic of the tests stays in network namespaces that they make.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where rustup and Go's archive put their programs: only login shells look there by themselves.
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/go/bin

kube_bin_dir=${KUBE_BIN_DIR:-$PWD/.cache/kube}
export KUBE_BIN_DIR=$kube_bin_dir
logs=$(mktemp -d)
go_build=
passed=0
failed=0
ignored=0
skipped=0

finish() {
    local status=$?
    trap - EXIT
    if [[ -n $go_build ]]; then
        # Its own process group: `go build` has children.
        kill -- "-$go_build" 2>/dev/null || true
    fi
    rm -rf "$logs"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step NAME COMMAND... : quiet when all is well, everything when not. Keeps the output in $logs.
step() {
    local name=$1 log start=$SECONDS
    shift
    log=$logs/${name//[^a-z0-9]/-}
    if "$@" >"$log" 2>&1; then
        printf 'ok      %-44s %4d s\n' "$name" "$((SECONDS - start))"
    else
        printf 'FAILED  %-44s %4d s\n' "$name" "$((SECONDS - start))"
        cat "$log"
        return 1
    fi
}

# Programs that the tests run, and the package each is in.
packages() {
    local need
    for need in iptables:iptables ip:iproute2 conntrack:conntrack openssl:openssl curl:curl jq:jq \
        nft:nftables socat:socat patch:patch cc:build-essential make:make valgrind:valgrind \
        faketime:faketime mandoc:mandoc; do
        command -v "${need%%:*}" >/dev/null || echo "${need##*:}"
    done
}

install_packages() {
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

have_kube() {
    local program
    for program in etcd kube-apiserver kube-proxy; do
        [[ -x $kube_bin_dir/$program ]] || return 1
    done
}

build_kube() {
    local version="k8s.io/component-base/version" flags
    flags="-X $version.gitVersion=v1.36.3 -X $version.gitMajor=1 -X $version.gitMinor=36"
    mkdir -p "$kube_bin_dir"
    cd tests/support/kube
    export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0
    local output=$kube_bin_dir/.new
    mkdir -p "$output"
    go build -trimpath -ldflags "$flags" -o "$output/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
    go build -trimpath -ldflags "$flags" -o "$output/kube-proxy" k8s.io/kubernetes/cmd/kube-proxy
    go build -trimpath -o "$output/etcd" go.etcd.io/etcd/server/v3
    # Moved when all are there: an interrupted build leaves nothing that looks complete.
    mv "$output"/* "$kube_bin_dir"/
    rmdir "$output"
}

wait_for_kube() {
    local status=0
    wait "$go_build" || status=$?
    go_build=
    cat "$logs/kube"
    return "$status"
}

# `test result: ok. 5 passed; 0 failed; 1 ignored; ...` of every test binary, and the lines of tests
# that found this machine unable to run them.
count() {
    read -r passed failed ignored < <(awk '/^test result:/ { for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") p += $i; if ($(i + 1) == "failed;") f += $i
        if ($(i + 1) == "ignored;") n += $i } }
        END { print p + 0, f + 0, n + 0 }' "$logs/cargo-test")
    skipped=$(grep -c '^skipped: ' "$logs/cargo-test" || true)
}

if [[ $EUID -ne 0 ]]; then
    echo "tests/run.sh: the kernel tests need root" >&2
    exit 1
fi

status=0
mapfile -t missing < <(packages)
if ((${#missing[@]} > 0)); then
    step "install ${missing[*]}" install_packages "${missing[@]}"
fi
for tool in cargo go; do
    if [[ $tool == go ]] && have_kube; then continue; fi
    command -v "$tool" >/dev/null || { echo "tests/run.sh: \`$tool\` is not installed" >&2; exit 1; }
done

if ! have_kube; then
    # Cargo and Go share the cores: each waits for its network or linker in turn.
    set -m
    (set -e; build_kube) >"$logs/kube" 2>&1 &
    go_build=$!
    set +m
fi

step "cargo fmt --check" cargo fmt --check || status=1
step "cargo clippy" cargo clippy --quiet --all-targets -- -D warnings || status=1
RUSTDOCFLAGS="-D warnings" step "cargo doc" cargo doc --quiet --no-deps --document-private-items || status=1
# tests/dependencies.rs holds to the same lists; advisories want github.com, and are asked by hand.
if command -v cargo-deny >/dev/null; then
    step "cargo deny" cargo deny --offline check licenses bans sources || status=1
fi
step "cargo test --no-run" cargo test --quiet --no-run --all-targets || status=1
if [[ -n $go_build ]]; then
    step "build etcd, kube-apiserver, kube-proxy" wait_for_kube || status=1
fi
export REQUIRE_KERNEL=1
# Not --all-targets: that would run the benchmarks, which the step before has compiled.
step "cargo test" cargo test --lib --bins --tests --no-fail-fast -- "$@" || status=1
step "cargo test --doc" cargo test --quiet --doc || status=1
count
# What the comparisons with a real kube-proxy have counted.
grep -hE '^(conformance|kernel|packets|kube-proxy): ' "$logs/cargo-test" || true
if ((failed > 0 || passed == 0)); then status=1; fi
grep -h '^skipped: ' "$logs/cargo-test" | sort | uniq -c || true
# Ignored are those that other tests run as a process of their own, and those that take hours.
echo "$passed passed, $failed failed, $skipped skipped, $ignored ignored"
exit "$status"
