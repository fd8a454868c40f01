#!/usr/bin/env bash
# Records the session of the README with the real program, as deploy/recording.svg.
#
#   ./deploy/recording.sh         requires `termtosvg` (from PyPI) and target/release/deltaproxy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The session: this script runs itself inside the recorded terminal.
if [[ ${1-} == session ]]; then
    type_and_run() {
        local i
        printf '\e[32m$\e[0m '
        for ((i = 0; i < ${#1}; i++)); do
            printf '%s' "${1:i:1}"
            sleep 0.03
        done
        echo
        # `diff` exits with 1 because of the differences.
        eval "$1" || true
        sleep "$2"
    }
    export PATH=$PWD/target/release:$PATH TERM=xterm-256color
    cd deploy
    deltaproxy() { command deltaproxy "$@" --hostname-override node1 --cluster-cidr 10.4.0.0/14,fd00:10:4::/48; }
    changed=$(mktemp -d)
    trap 'rm -rf "$changed"' EXIT
    cp examples/* "$changed"
    sed -i 's/10.4.0.31/10.4.0.33/' "$changed/admin.yaml"
    ln -s "$changed" after
    trap 'rm -rf "$changed" after' EXIT
    type_and_run 'deltaproxy services admin public checkout --manifests examples' 3
    type_and_run 'deltaproxy explain shop/public --manifests examples --from outside' 5
    type_and_run 'deltaproxy diff --from-manifests examples --manifests after' 4
    type_and_run 'deltaproxy render --since examples --manifests after --annotate' 5
    exit
fi

termtosvg deploy/recording.svg --screen-geometry 150x44 --template window_frame \
    --command "${BASH_SOURCE[0]} session"
