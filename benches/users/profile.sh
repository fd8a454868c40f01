#!/usr/bin/env bash
# Draws a flame graph of the daemon under the virtual users of the load test.
#
#   benches/users/profile.sh SERVICES USERS OUTPUT.svg
#
# Needs root, perf, and inferno (cargo install inferno), besides what the load test needs. Child
# processes are left out: the largest part of the CPU time is that of iptables-restore.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $# -eq 3 ]] || { sed -n '4s,^# *,usage: ,p' "${BASH_SOURCE[0]}" >&2; exit 64; }

folder=$(mktemp -d)
trap 'kill "${bench-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
export CARGO_PROFILE_BENCH_DEBUG=1 CARGO_PROFILE_RELEASE_DEBUG=1 CARGO_PROFILE_RELEASE_STRIP=none
cargo bench --bench users --no-run
cargo bench --bench users -- --services "$1" --users "$2" --program deltaproxy \
    --json "$folder/users.json" &
bench=$!
until daemon=$(pgrep -nx deltaproxy); do
    kill -0 "$bench"
    sleep 0.1
done
# Ends with the daemon.
perf record -q -F 499 --call-graph dwarf,8192 -p "$daemon" -o "$folder/perf.data" || true
wait "$bench"
perf script -i "$folder/perf.data" --no-inline | inferno-collapse-perf | grep -v '^ip6\?tables' \
    | inferno-flamegraph --title "deltaproxy: $2 users, $1 Services" --countname ns \
        --deterministic --minwidth 0.5 >"$3"
