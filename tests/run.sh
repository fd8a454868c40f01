#!/usr/bin/env bash
# Runs the checks and tests.
#
#   ./tests/run.sh quick [--times] [FILTER]   without root, kernel and cluster
#   ./tests/run.sh [--all] [--times] [FILTER]
#
# Without --all, some tests run only after a change of what they test, or in turns: see part_is_due and
# left_out below. --times prints the time of each module, or of each test that FILTER matches.
# FILTER is handed to `cargo test`. .github/CONTRIBUTING.md says what each form proves.
#
# All but `quick` want root on a Debian-like machine with Rust and Go. They install what else is
# missing, and build etcd, kube-apiserver and kube-proxy once, for the guides kubeadm, kubectl and helm
# as well, into .cache/kube (or use those in KUBE_BIN_DIR), and the static binaries and the image into
# .cache/image.
# Traffic of the tests stays in network namespaces that they make.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where rustup and Go's archive put their programs: only login shells look there by themselves.
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/go/bin

kube_bin_dir=${KUBE_BIN_DIR:-$PWD/.cache/kube}
export KUBE_BIN_DIR=$kube_bin_dir
kube_version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' tests/support/kube/go.mod)
axe_version=4.10.3
form=default
with_times=
is_compiled_once=
if [[ ${1-} == quick ]]; then
    form=quick
    shift
fi
while [[ ${1-} == --* ]]; do
    case $form$1 in
        default--all) form=all ;;
        *--times) with_times=yes ;;
        *) sed -n '4,5s/^# */usage: /p' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
    esac
    shift
done
logs=$(mktemp -d)
# Process groups of what runs in the background.
go_build=
image_build=
lints=
passed=0
failed=0
ignored=0
skipped=0

finish() {
    local status=$? group
    trap - EXIT
    if [[ -n $lints ]]; then cat "$logs/lints"; fi
    for group in $go_build $image_build $lints; do
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
# Prints the wall time, and the time of CPU.
step() {
    local name=$1 log status=0 wall user system result=ok
    shift
    log=$logs/${name//[^a-z0-9]/-}
    { time "$@" >"$log" 2>&1 || status=1; } 2>"$log.time"
    read -r wall user system <"$log.time"
    ((status == 0)) || result=FAILED
    printf '%-7s %-44s %4d s %5d s of CPU\n' "$result" "$name" "$wall" "$((user + system))"
    if ((status != 0)); then cat "$log"; fi
    return "$status"
}
TIMEFORMAT='%0R %0U %0S'

# What parts of the suite are made of, that need programs of their own which take minutes to build. The
# image has the program as well, which the other tests run: only a change of how it is built and packed
# is a reason to build it again.
declare -A made_of=(
    [guides]="deploy src/config tests/charts.rs tests/guides tests/newest_release.rs tests/support/helm tests/support/kube"
    [image]="deploy/image deploy/release.sh .cargo Cargo.lock Cargo.toml src/main.rs tests/image tests/release.rs tests/static_binary.rs"
)

digest() {
    local paths
    read -ra paths <<<"${made_of[$1]}"
    find "${paths[@]}" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
}

# part_is_due PART DIGEST : after a change since the last run that passed. Where none has, as in a new
# clone, only --all runs it.
part_is_due() {
    [[ $form == all || -e .cache/passed/$1 && $(<".cache/passed/$1") != "$2" ]]
}

# Programs that the tests run, and the package each is in.
packages() {
    local need other=aarch64
    [[ $(uname -m) != aarch64 ]] || other=x86_64
    local needs=(iptables:iptables ip:iproute2 conntrack:conntrack openssl:openssl curl:curl jq:jq
        nft:nftables socat:socat patch:patch cc:build-essential make:make valgrind:valgrind
        faketime:faketime mandoc:mandoc promtool:prometheus chromium:chromium npm:npm)
    if [[ -n ${due[image]-} ]]; then
        needs+=(umoci:umoci crun:crun "$other-linux-gnu-gcc:gcc-${other/_/-}-linux-gnu"
            "qemu-$other-static:qemu-user-static")
        # The seccomp profile of a runtime.
        [[ -e /usr/share/containers/seccomp.json ]] || echo golang-github-containers-common
    fi
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null || echo "${need##*:}"
    done
}

install_packages() {
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" || return
    # Its package starts a server, but the tests run their own.
    if [[ " $* " == *" prometheus "* ]]; then systemctl disable --now prometheus || true; fi
}

# Judges how accessible the pages are, in a browser.
install_axe() {
    local archive=axe-core-$axe_version.tgz
    mkdir -p .cache/axe
    (cd .cache/axe && npm pack --silent "axe-core@$axe_version" && tar -xzf "$archive" package/axe.min.js && rm "$archive")
}

# Prints those programs of Kubernetes that the tests run and that are not there.
missing_kube() {
    local program programs=(etcd kube-apiserver kube-proxy kubelet-streams)
    [[ -z ${due[guides]-} ]] || programs+=(kubeadm kubectl helm)
    for program in "${programs[@]}"; do
        [[ -x $kube_bin_dir/$program ]] || echo "$program"
    done
}

is_kube_version() {
    [[ -x $kube_bin_dir/kube-proxy && $("$kube_bin_dir/kube-proxy" --version) == "Kubernetes $kube_version" ]]
}

build_kube() {
    local name=k8s.io/component-base/version output=$kube_bin_dir/.new minor flags program folder package
    minor=$(cut -d. -f2 <<<"$kube_version")
    flags="-w -X $name.gitVersion=$kube_version -X $name.gitMajor=1 -X $name.gitMinor=$minor"
    rm -rf "$output"
    mkdir -p "$output"
    # Of another release, as is all that was built with it.
    [[ ! -x $kube_bin_dir/kube-proxy ]] || is_kube_version || rm -f "$kube_bin_dir"/{etcd,kube-apiserver,kube-proxy,kubelet-streams,kubeadm,kubectl}
    # Without data for debuggers, and with less garbage collection, compilers take a ninth less CPU.
    export GOWORK=off CGO_ENABLED=0 GOGC=400 GOFLAGS="-mod=readonly -gcflags=all=-dwarf=false"
    for program in $(missing_kube); do
        folder=tests/support/kube
        case $program in
            etcd) package=go.etcd.io/etcd/server/v3 ;;
            kubelet-streams) package=./kubelet ;;
            # A module of its own: helm needs later versions of what the others are built of.
            helm) folder=tests/support/helm package=helm.sh/helm/v4/cmd/helm ;;
            *) package=k8s.io/kubernetes/cmd/$program ;;
        esac
        (cd "$folder" && go build -trimpath -ldflags "$flags" -o "$output/$program" "$package")
    done
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

# The parts that run for a change of what they are made of, with its digest.
declare -A due=()
# Parts that this run leaves out: tests/support/left_out.rs has the list.
left_out=()
[[ $form == all ]] || left_out+=(other-groups more-cases)
if [[ $form == quick ]]; then
    left_out+=(machine)
else
    for part in guides image; do
        digest=$(digest "$part")
        if part_is_due "$part" "$digest"; then due[$part]=$digest; else left_out+=("$part"); fi
    done
fi
export TESTS_LEFT_OUT=${left_out[*]}

case $form in
    quick) targets=(--lib --test all); linted=("${targets[@]}") ;;
    default) targets=(--lib --tests); linted=(--lib --bins --tests) ;;
    all) targets=(--lib --tests); linted=(--all-targets) ;;
esac

# Installs and builds what the tests run besides the program.
prepare() {
    local missing tool has_kube=yes
    if [[ $EUID -ne 0 ]]; then
        echo "tests/run.sh: the kernel tests need root; without it, use \`./tests/run.sh quick\`" >&2
        exit 1
    fi
    mapfile -t missing < <(packages)
    if ((${#missing[@]} > 0)); then
        step "install ${missing[*]}" install_packages "${missing[@]}"
    fi
    [[ -f .cache/axe/package/axe.min.js ]] || step "install axe-core" install_axe
    if [[ -n $(missing_kube) ]] || ! is_kube_version; then has_kube=no; fi
    for tool in cargo go; do
        if [[ $tool == go && $has_kube == yes ]]; then continue; fi
        command -v "$tool" >/dev/null || { echo "tests/run.sh: \`$tool\` is not installed" >&2; exit 1; }
    done
    if [[ ! -d ${CARGO_TARGET_DIR:-target}/debug/incremental ]]; then
        # What is compiled once needs nothing for the next time, and no lines in backtraces.
        is_compiled_once=yes
        # With 4 codegen units in place of 16, generic functions are compiled less often.
        export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_CODEGEN_UNITS=4
    fi
    # Compilers share the cores: each waits for its network, its linker or a single thread in turn.
    set -m
    if [[ $has_kube == no ]]; then
        build_kube >"$logs/kube" 2>&1 &
        go_build=$!
    fi
    if [[ -n ${due[image]-} ]]; then
        build_image >"$logs/image" 2>&1 &
        image_build=$!
    fi
    set +m
    # Otherwise their CPU would be counted for another step.
    [[ -z $with_times ]] || await_builds
}

await_builds() {
    if [[ -n $image_build ]]; then
        step "static binaries and image" await "$image_build" "$logs/image" || status=1
        image_build=
    fi
    if [[ -n $go_build ]]; then
        step "build Kubernetes' programs" await "$go_build" "$logs/kube" || status=1
        go_build=
    fi
}

status=0
[[ $form == quick ]] || prepare
step "cargo fmt --check" cargo fmt --check || status=1
# What reads nodes from a laptop. Its C code has no compiler here, and a check needs none of it.
check_apple() {
    local target=aarch64-apple-darwin
    [[ -d $(rustc --print target-libdir --target "$target") ]] || rustup target add "$target" || return
    CC_aarch64_apple_darwin=true AR_aarch64_apple_darwin=true cargo check --quiet --locked \
        --no-default-features --features tools --target "$target"
}

lint() {
    local result=0
    if [[ -n $is_compiled_once ]]; then
        RUSTC_WORKSPACE_WRAPPER=$PWD/tests/lint.sh step clippy cargo build --quiet "${linted[@]}" || result=1
    else
        step "cargo clippy" cargo clippy --quiet "${linted[@]}" -- -D warnings || result=1
    fi
    if [[ $form == all ]]; then
        # Other features of dependencies: nearly all are compiled again.
        step "cargo clippy without tools" cargo clippy --quiet --locked --lib --no-default-features --features jemalloc -- \
            -D warnings || result=1
        step "cargo check for macOS" check_apple || result=1
        RUSTDOCFLAGS="-D warnings" step "cargo doc" cargo doc --quiet --no-deps --document-private-items || result=1
    fi
    return "$result"
}

# Lints run beside the tests, while these wait for other programs. In the quick form they wait for
# none, and with --times nothing may run beside them.
if [[ $form == quick ]]; then lint || status=1; fi
# tests/dependencies.rs holds to the same lists; advisories want github.com, and are asked by hand.
if [[ $form != quick ]] && command -v cargo-deny >/dev/null; then
    step "cargo deny" cargo deny --offline check licenses bans sources || status=1
fi
step "cargo test --no-run" cargo test --quiet --no-run "${targets[@]}" || status=1
await_builds
if [[ $form != quick && -n $with_times ]]; then lint || status=1; fi
if [[ $form != quick ]]; then
    export REQUIRE_KERNEL=1
    # API servers and other programs in Go take a fifth less time if they collect garbage less often.
    export GOGC=400
    # Most tests wait for other programs more than half of their time.
    export RUST_TEST_THREADS=$((3 * $(nproc)))
fi
if [[ $form != quick && -z $with_times ]]; then
    set -m
    (renice -n 19 "$BASHPID" >"$logs/renice" 2>&1 || true; lint) >"$logs/lints" 2>&1 &
    lints=$!
    set +m
fi
# Not --all-targets: that would run the benchmarks.
if [[ -z $with_times ]]; then
    # A process of its own, which does not wait for the lints and count their CPU.
    (step "cargo test" cargo test "${targets[@]}" --no-fail-fast -- "$@") || status=1
else
    step "cargo test" tests/times.sh "$logs/tables" "${targets[*]}" "$@" || status=1
    cat "$logs/tables"
fi
if [[ -n $lints ]]; then
    await "$lints" "$logs/lints" || status=1
    lints=
fi
count
# What the comparisons with a real kube-proxy have counted.
grep -hE '^(conformance|kernel|packets|kube-proxy|shadow|swap): ' "$logs/cargo-test" || true
if ((failed > 0 || passed == 0)); then status=1; fi
grep -h '^skipped: ' "$logs/cargo-test" | sort | uniq -c || true
# Last, where a service that cuts long logs still shows it: which tests panicked, and why.
awk '/^---- .* ----$/ { left = 24 } /^stack backtrace:/ { left = 0 } left-- > 0' "$logs/cargo-test"
if ((status == 0)) && [[ $form != quick && $# -eq 0 ]]; then
    mkdir -p .cache/passed
    for part in "${!due[@]}"; do echo "${due[$part]}" >".cache/passed/$part"; done
fi
times >"$logs/total"
awk -v wall="$SECONDS" 'NR == 2 { split($1 "m" $2, part, /[ms]+/)
    print "took " wall " s, " int(60 * (part[1] + part[3]) + part[2] + part[4]) " s of CPU" }' "$logs/total"
# Ignored are those that other tests run as a process of their own, and those that take hours.
echo "$passed passed, $failed failed, $skipped skipped, $ignored ignored"
exit "$status"
