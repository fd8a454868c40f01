#!/usr/bin/env bash
# Follows random histories beside a real kube-proxy for as long as it is told to.
#
#   ./tests/soak.sh --steps N | --hours N  [--seed N] [--faults]
#
# With --faults, each step damages the rules of deltaproxy's node, or stops, kills or hinders the
# daemon; --steps is the length of one history then.
#
# Wants what tests/run.sh installs and builds. Ends with one line that counts everything, or with
# the first difference and the seed that repeats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    sed -n '4s,^# *,usage: ,p' "${BASH_SOURCE[0]}" >&2
    exit 64
}

test=soak
while (($# > 0)); do
    if [[ $1 == --faults ]]; then
        test=soak_with_faults
        shift
        continue
    fi
    [[ $# -ge 2 && $2 =~ ^[0-9]+$ ]] || usage
    case $1 in
        --steps) export CONFORMANCE_STEPS=$2 ;;
        --hours) export CONFORMANCE_HOURS=$2 ;;
        --seed) export CONFORMANCE_SEED=$2 ;;
        *) usage ;;
    esac
    shift 2
done
[[ -n ${CONFORMANCE_STEPS-}${CONFORMANCE_HOURS-} ]] || usage
export REQUIRE_KERNEL=1
exec cargo test --test all -- --ignored --exact "conformance::$test" --nocapture
