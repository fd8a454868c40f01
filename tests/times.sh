#!/usr/bin/env bash
# Runs the tests module by module, each with the machine for itself, and writes what each takes.
#
#   ./tests/run.sh --times [FILTER]      builds everything, and calls this script
#
# With FILTER, each test that it matches is run alone. CPU is that of the tests and of all programs
# that they start and wait for. The library's tests are `deltaproxy`, those of tests/main.rs `all`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tables=$1
read -ra targets <<<"$2"
shift 2
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints one test or module of a program for each line.
groups() {
    "$@" --list --format terse | sed -n 's/: test$//p' >"$folder/names"
    if (($# > 1)); then
        cat "$folder/names"
    else
        sed 's/::.*//' "$folder/names" | sort -u
    fi
}

# The time of a single test is an unstable option, of the test program and not of the compiler.
run_group() {
    env RUSTC_BOOTSTRAP=1 "$binary" -Z unstable-options --report-time --exact "$@"
}

cargo test --no-run "${targets[@]}" 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p' >"$folder/binaries"
mapfile -t binaries <"$folder/binaries"
status=0
for binary in "${binaries[@]}"; do
    program=$(basename "$binary")
    for group in $(groups "$binary" "$@"); do
        mapfile -t tests < <(grep -E "^$group(::|$)" "$folder/names")
        TIMEFORMAT="${program%-*} $group ${#tests[@]} %R %U %S"
        { time run_group "${tests[@]}" >>"$folder/output" 2>&1 || status=1; } 2>>"$folder/groups"
    done
done
cat "$folder/output"

{
    printf '\n| program | tests of (from 1 s on) | number | wall, s | CPU, s |\n|---|---|---:|---:|---:|\n'
    awk '$4 + $5 + $6 >= 1 { printf "| %s | %s | %d | %.1f | %.1f |\n", $1, $2, $3, $4, $5 + $6 }' "$folder/groups" |
        sort -t '|' -k 6,6nr
    printf '\n| slowest tests | wall, s |\n|---|---:|\n'
    sed -n 's/^test \(.*\) \.\.\. .*<\(.*\)s>$/| \1 | \2 |/p' "$folder/output" | sort -t '|' -k 3,3nr | sed -n 1,20p
} >"$tables"
exit "$status"
