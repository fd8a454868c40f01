#!/usr/bin/env bash
# Runs every check and every test, the kernel and end-to-end ones too.
#
#   ./tests/run.sh [FILTER]     FILTER is handed to `cargo test`
#
# Wants root on a Debian-like machine with Rust and Go. Installs what else is missing, and builds
# etcd, kube-apiserver, kube-proxy, kubeadm, kubectl and helm once, into .cache/kube (or uses those in
# KUBE_BIN_DIR), and the static binaries and the image into .cache/image.
# Traffic of the tests stays in network namespaces that they make.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where rustup and Go's archive put their programs: only login shells look there by themselves.
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/go/bin

kube_bin_dir=${KUBE_BIN_DIR:-$PWD/.cache/kube}
export KUBE_BIN_DIR=$kube_bin_dir
kube_version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' tests/support/kube/go.mod)
logs=$(mktemp -d)
# Process groups of what is built in the background.
go_build=
image_build=
passed=0
failed=0
ignored=0
skipped=0

finish() {
    local status=$? group
    trap - EXIT
    for group in $go_build $image_build; do
        # Its own process group: compilers have children.
        kill -- "-$group" 2>/dev/null || true
    done
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
    local need other=aarch64
    [[ $(uname -m) != aarch64 ]] || other=x86_64
    for need in iptables:iptables ip:iproute2 conntrack:conntrack openssl:openssl curl:curl jq:jq \
        nft:nftables socat:socat patch:patch cc:build-essential make:make valgrind:valgrind \
        faketime:faketime mandoc:mandoc umoci:umoci crun:crun \
        "$other-linux-gnu-gcc:gcc-${other/_/-}-linux-gnu" "qemu-$other-static:qemu-user-static"; do
        command -v "${need%%:*}" >/dev/null || echo "${need##*:}"
    done
    # The seccomp profile of a runtime.
    [[ -e /usr/share/containers/seccomp.json ]] || echo golang-github-containers-common
}

install_packages() {
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

have_kube() {
    local program
    for program in etcd kube-apiserver kube-proxy kubeadm kubectl helm; do
        [[ -x $kube_bin_dir/$program ]] || return 1
    done
    [[ $("$kube_bin_dir/kube-proxy" --version) == "Kubernetes $kube_version" ]]
}

build_kube() {
    local name=k8s.io/component-base/version minor flags program is_other
    minor=$(cut -d. -f2 <<<"$kube_version")
    flags="-X $name.gitVersion=$kube_version -X $name.gitMajor=1 -X $name.gitMinor=$minor"
    mkdir -p "$kube_bin_dir"
    is_other=
    if [[ -x $kube_bin_dir/kube-proxy && $("$kube_bin_dir/kube-proxy" --version) != *"$kube_version" ]]; then
        is_other=yes
    fi
    cd tests/support/kube
    export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0
    local output=$kube_bin_dir/.new
    mkdir -p "$output"
    for program in kube-apiserver kube-proxy kubeadm kubectl; do
        # A folder that has them may lack only those of a later commit, unless they are of another
        # release.
        [[ ! -x $kube_bin_dir/$program || -n $is_other ]] || continue
        go build -trimpath -ldflags "$flags" -o "$output/$program" "k8s.io/kubernetes/cmd/$program"
    done
    [[ -x $kube_bin_dir/etcd && -z $is_other ]] || go build -trimpath -o "$output/etcd" go.etcd.io/etcd/server/v3
    # A module of its own: helm needs later versions of what the programs above are built of.
    cd ../helm
    [[ -x $kube_bin_dir/helm ]] || go build -trimpath -o "$output/helm" helm.sh/helm/v4/cmd/helm
    # Moved when all are there: an interrupted build leaves nothing that looks complete.
    mv "$output"/* "$kube_bin_dir"/
    rmdir "$output"
}

# With a profile that compiles fast: the tests look at what is in the image, not at its speed.
build_image() {
    local arch binary
    export ALLOW_NEWER_PACKAGES=yes
    for arch in amd64 arm64; do
        binary=$(deploy/image/binary.sh --arch "$arch" --profile quickstart)
        install -D "$binary" ".cache/image/bin/$arch/deltaproxy"
    done
    deploy/image/build.sh --profile quickstart --output .cache/image/oci
}

# await GROUP LOG : the output and status of what was started in the background.
await() {
    local status=0
    wait "$1" || status=$?
    cat "$2"
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

if [[ ! -d ${CARGO_TARGET_DIR:-target}/debug/incremental ]]; then
    # What is compiled once needs nothing for the next time, and no lines in backtraces.
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false
fi

# Compilers share the cores: each waits for its network, its linker or a single thread in turn.
set -m
if ! have_kube; then
    build_kube >"$logs/kube" 2>&1 &
    go_build=$!
fi
build_image >"$logs/image" 2>&1 &
image_build=$!
set +m

step "cargo fmt --check" cargo fmt --check || status=1
step "cargo clippy" cargo clippy --quiet --all-targets -- -D warnings || status=1
RUSTDOCFLAGS="-D warnings" step "cargo doc" cargo doc --quiet --no-deps --document-private-items || status=1
# tests/dependencies.rs holds to the same lists; advisories want github.com, and are asked by hand.
if command -v cargo-deny >/dev/null; then
    step "cargo deny" cargo deny --offline check licenses bans sources || status=1
fi
# Without the benchmarks, which clippy has checked: they are ten more programs to link.
step "cargo test --no-run" cargo test --quiet --no-run --lib --bins --tests || status=1
step "static binaries and image" await "$image_build" "$logs/image" || status=1
image_build=
if [[ -n $go_build ]]; then
    step "build etcd, Kubernetes' programs and helm" await "$go_build" "$logs/kube" || status=1
    go_build=
fi
export REQUIRE_KERNEL=1
# API servers and other programs in Go take a fifth less time if they collect garbage less often.
export GOGC=400
# Most tests wait for other programs half of their time.
export RUST_TEST_THREADS=$((2 * $(nproc)))
# Not --all-targets: that would run the benchmarks.
step "cargo test" cargo test --lib --bins --tests --no-fail-fast -- "$@" || status=1
step "cargo test --doc" cargo test --quiet --doc || status=1
count
# What the comparisons with a real kube-proxy have counted.
grep -hE '^(conformance|kernel|packets|kube-proxy|swap): ' "$logs/cargo-test" || true
if ((failed > 0 || passed == 0)); then status=1; fi
grep -h '^skipped: ' "$logs/cargo-test" | sort | uniq -c || true
# Last, where a service that cuts long logs still shows it: which tests panicked, and why.
awk '/^---- .* ----$/ { left = 24 } /^stack backtrace:/ { left = 0 } left-- > 0' "$logs/cargo-test"
# Ignored are those that other tests run as a process of their own, and those that take hours.
echo "$passed passed, $failed failed, $skipped skipped, $ignored ignored"
exit "$status"
