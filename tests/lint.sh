#!/usr/bin/env bash
# Checks the crate with clippy, in place of compiling it, with the dependencies of a build.
#
#   RUSTC_WORKSPACE_WRAPPER=$PWD/tests/lint.sh cargo build --lib --bins --tests
#
# From a new clone, `cargo clippy` takes nearly twice as long: it checks all dependencies that were
# compiled for the tests. Later it is faster, as it knows what has not changed.
arguments=()
for argument in "$@"; do
    case $argument in
        # As `cargo check` does, no code: what needs the library reads its metadata.
        --emit=*) argument=--emit=dep-info,metadata ;;
        deltaproxy=*.rlib) argument=${argument%.rlib}.rmeta ;;
    esac
    arguments+=("$argument")
done
exec clippy-driver "${arguments[@]}" -D warnings
