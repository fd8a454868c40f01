#!/usr/bin/env bash
# Follows random histories beside a real kube-proxy for a given time.
#
#   ./tests/soak.sh --steps N | --hours N | --kube-proxy 1.N | --api-server 1.N  [--seed N] [--faults]
#
# With --faults, each step damages the rules of deltaproxy's node, or stops, kills or hinders the
# daemon; --steps is the length of one history then.
#
# --kube-proxy compares all features and 200 random steps with the kube-proxy of a minor release,
# --api-server runs the end-to-end tests on its API server. Both can be repeated. Results go to
# tests/support_matrix, and to the page that is generated from them.
#
# Wants what tests/run.sh installs and builds. Ends with one line that counts everything, or with
# the first difference and the seed that repeats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    sed -n '4s,^# *,usage: ,p' "${BASH_SOURCE[0]}" >&2
    exit 64
}

# Runs one test that ordinary runs ignore.
run_test() {
    cargo test --test all -- --ignored --exact "$1" --nocapture
}

# Path of a program of a minor release: `go.mod` of tests/support/kube has the newest, which
# tests/run.sh builds.
program_of() {
    if grep -q "k8s.io/kubernetes v$1\." tests/support/kube/go.mod; then
        echo "${KUBE_BIN_DIR:-$PWD/.cache/kube}/$2"
    else
        tests/support/kube/build.sh "$1" "$2" || exit
        echo "$PWD/.cache/kube-$1/$2"
    fi
}

test=soak
proxies=()
servers=()
while (($# > 0)); do
    if [[ $1 == --faults ]]; then
        test=soak_with_faults
        shift
        continue
    fi
    [[ $# -ge 2 ]] || usage
    case $1 in
        --kube-proxy | --api-server) [[ $2 =~ ^1\.[0-9]+$ ]] || usage ;;
        *) [[ $2 =~ ^[0-9]+$ ]] || usage ;;
    esac
    case $1 in
        --steps) export CONFORMANCE_STEPS=$2 ;;
        --hours) export CONFORMANCE_HOURS=$2 ;;
        --seed) export CONFORMANCE_SEED=$2 ;;
        --kube-proxy) proxies+=("$2") ;;
        --api-server) servers+=("$2") ;;
        *) usage ;;
    esac
    shift 2
done
export REQUIRE_KERNEL=1
if ((${#proxies[@]} + ${#servers[@]} > 0)); then
    MATRIX_DATE=$(date -u +%F)
    export MATRIX_DATE
    for minor in "${proxies[@]}"; do
        program=$(program_of "$minor" kube-proxy)
        KUBE_PROXY=$program run_test conformance::rules_of_a_release
    done
    for minor in "${servers[@]}"; do
        program=$(program_of "$minor" kube-apiserver)
        KUBE_APISERVER=$program run_test support_matrix::end_to_end_tests_of_an_api_server
    done
    UPDATE_GOLDEN=1 cargo test --test all -- --exact support_matrix::the_page_is_what_the_recorded_runs_give
    exit
fi
[[ -n ${CONFORMANCE_STEPS-}${CONFORMANCE_HOURS-} ]] || usage
run_test "conformance::$test"
