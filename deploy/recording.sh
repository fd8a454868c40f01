#!/usr/bin/env bash
# Records sessions with the real program: that of the README as deploy/recording.svg, and that of
# deploy/docs/no-answer.md as deploy/docs/operate.svg, for which a daemon runs in a network namespace.
#
#   ./deploy/recording.sh [readme|operate]    `operate` as root; both by default
#
# Requires `termtosvg` (from PyPI) and target/release/deltaproxy.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$script")/.."

# The sessions: this script runs itself inside the recorded terminal.
type_and_run() {
    local i
    printf '\e[32m$\e[0m '
    for ((i = 0; i < ${#1}; i++)); do
        printf '%s' "${1:i:1}"
        sleep 0.03
    done
    echo
    # `diff` exits with 1 because of the differences, and so does `status`.
    eval "$1" || true
    sleep "$2"
}
if [[ ${1-} == session-readme ]]; then
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
    type_and_run 'deltaproxy render --since examples --manifests after' 5
    exit
fi
if [[ ${1-} == session-operate ]]; then
    export TERM=xterm-256color
    cd "$2"
    clear_and_run() {
        printf '\e[H\e[2J\e[3J'
        type_and_run "$@"
    }
    type_and_run 'deltaproxy status' 6
    clear_and_run 'deltaproxy services --problems' 4
    type_and_run 'deltaproxy explain shop/telephony --kernel' 5
    type_and_run 'sed -i s/SCTP/TCP/ manifests/telephony.yaml' 12
    type_and_run 'deltaproxy explain shop/telephony --kernel' 4
    clear_and_run 'deltaproxy status' 6
    exit
fi

record() { # record NAME FILE GEOMETRY [ARG]
    # At the end of its input, termtosvg ends the session. Fewer frames make the file smaller.
    termtosvg "$2" --screen-geometry "$3" --template window_frame --min-frame-duration 150 \
        --command "$script session-$1 ${4-}" < <(sleep 120)
}

finish() {
    [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
    wait
    ip netns delete "$namespace"
    rm -rf "$work"
}

# A node that loses the extension for SCTP: the Service with it changes, and is in quarantine.
operate() {
    namespace=recording-$$
    work=$(mktemp -d)
    daemon=
    ip netns add "$namespace"
    trap finish EXIT
    ip -n "$namespace" link set lo up
    mkdir "$work/bin" "$work/manifests"
    for name in iptables ip6tables; do
        for suffix in '' -save -restore; do
            ln -s "$(command -v $name-nft$suffix)" "$work/bin/$name$suffix"
        done
    done
    rm "$work/bin/iptables-restore"
    cat >"$work/bin/iptables-restore" <<SCRIPT
#!/bin/sh
payload=\$(cat)
line=\$(printf '%s\n' "\$payload" | grep -n -m 1 -e '-p sctp' | cut -d: -f1)
if [ -n "\$line" ] && [ -e $work/without-sctp ]; then
    echo "Couldn't load match 'sctp': No such file or directory" >&2
    echo "Error occurred at line: \$line" >&2
    exit 2
fi
printf '%s\n' "\$payload" | exec iptables-nft-restore "\$@"
SCRIPT
    chmod +x "$work/bin/iptables-restore"
    cp deploy/examples/* "$work/manifests"
    # It has no endpoints, and would be a problem of its own.
    rm "$work/manifests/gift-cards.yaml"
    ln -s "$PWD/target/release/deltaproxy" "$work/bin/deltaproxy"
    export PATH=$work/bin:$PATH
    ip netns exec "$namespace" deltaproxy run --manifests="$work/manifests" \
        --hostname-override=node1 --cluster-cidr=10.4.0.0/14,fd00:10:4::/48 \
        --conntrack-max-per-core=0 --iptables-backend=path >"$work/log" 2>&1 &
    daemon=$!
    await() { # await TEXT COMMAND...: until its output has the text
        local text=$1 i said
        shift
        for ((i = 0; i < 300; i++)); do
            said=$(ip netns exec "$namespace" deltaproxy "$@" 2>&1 || true)
            [[ $said != *"$text"* ]] || return 0
            sleep 0.1
        done
        cat "$work/log" >&2
        return 1
    }
    await sigtran services
    touch "$work/without-sctp"
    sed -i 's/10\.4\.0\.91/10.4.0.92/' "$work/manifests/telephony.yaml"
    await 'in quarantine' status
    nsenter --net=/run/netns/"$namespace" "$script" record-operate "$work"
}

case ${1-all} in
readme) record readme deploy/recording.svg 150x44 ;;
operate) operate ;;
record-operate) record operate deploy/docs/operate.svg 120x48 "$2" ;;
all)
    record readme deploy/recording.svg 150x44
    operate
    ;;
*)
    echo "unknown session \`$1\`: use readme or operate" >&2
    exit 64
    ;;
esac
