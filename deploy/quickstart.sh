#!/usr/bin/env bash
# Demonstrates deltaproxy on this machine, without a cluster.
#
#   ./deploy/quickstart.sh           builds for some minutes, then demonstrates for seconds
#   ./deploy/quickstart.sh --stay    keeps everything running after it
#
# Requires root on a Debian-like machine with Rust. It creates network namespaces for one node, three
# storefront pods and a client; no packet leaves them, and rules of this machine are not changed. They
# are removed at the end, also after a failure. DELTAPROXY is a binary to use instead of a build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Where rustup puts its programs: only login shells look there by themselves.
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

readonly tag=dpquick-$$
readonly node=$tag-node client=$tag-client
readonly service_v4=10.96.10.1 service_v6=fd00:10:96::a01
readonly metrics=127.0.0.1:10249 health=127.0.0.1:10256
stay=no
work=$(mktemp -d)
log=$work/deltaproxy.log
started=()

main() {
    case "${1:-}" in
    "") ;;
    --stay) stay=yes ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 64 ;;
    esac
    [[ $EUID -eq 0 ]] || { echo "quickstart.sh: creating network namespaces requires root" >&2; exit 1; }

    say "Installing missing packages, and building"
    install_missing
    build

    say "Creating a node, three storefront pods and a client, each in a network namespace"
    make_node
    for number in 11 12 13; do make_pod "$tag-pod$number" "$number" "storefront-$number"; done
    make_pod "$client" 20 ""

    say "Starting deltaproxy on the node, with deploy/examples instead of an API server"
    start_daemon
    show_last_sync

    say "Sending requests to the storefront: twelve to its cluster IP $service_v4, six over IPv6"
    request 12 "$service_v4"
    request 6 "[$service_v6]"
    echo "The Service \`gift-cards\` has no endpoints; connections are rejected at once:"
    in_namespace "$client" curl --silent --show-error --max-time 5 http://10.96.10.11/ 2>&1 | indent || true

    say "Removing the endpoint 10.4.0.13, as a rollout would"
    remove_endpoint
    request 12 "$service_v4"

    say "The restore input for that: the changed chains, not the whole ruleset"
    show_payload
    show_last_sync

    say "Some of the metrics, with the names that kube-proxy's dashboards use"
    in_namespace "$node" curl --silent --fail "http://$metrics/metrics" |
        grep -E '^kubeproxy_(sync_(full|partial)_proxy_rules_duration_seconds_(count|sum)|iptables_)' |
        indent || true

    if [[ $stay == yes ]]; then
        how_to_play
        wait "$daemon" || true
    else
        say "Done; removing everything. To keep it running, use --stay."
    fi
}

step=0
say() {
    step=$((step + 1))
    printf '\n%d. %s\n' "$step" "$*"
}

indent() { sed 's/^/     /'; }

in_namespace() { ip netns exec "$@"; }

# until_true SECONDS COMMAND... : polls; fails after the timeout, or if the daemon has exited.
until_true() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= deadline)) || { [[ -n ${daemon:-} ]] && ! kill -0 "$daemon" 2>/dev/null; }; then
            echo "quickstart.sh: timed out waiting for: $*" >&2
            [[ ! -s $log ]] || { echo "The daemon's last lines:"; tail -n 20 "$log"; } >&2
            exit 1
        fi
        sleep 0.1
    done
}

install_missing() {
    local need missing=()
    for need in iptables:iptables ip:iproute2 curl:curl socat:socat cc:build-essential; do
        command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
    done
    ((${#missing[@]} > 0)) || return 0
    echo "   installing ${missing[*]}"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        "${missing[@]}"; } >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; exit 1; }
}

build() {
    if [[ -z ${DELTAPROXY:-} ]]; then
        command -v cargo >/dev/null ||
            { echo "quickstart.sh: \`cargo\` is not installed; see https://rustup.rs" >&2; exit 1; }
        # Without the allocator of releases, which takes long to compile.
        cargo build --locked --profile quickstart --no-default-features
        DELTAPROXY=${CARGO_TARGET_DIR:-target}/quickstart/deltaproxy
    fi
    DELTAPROXY=$(realpath "$DELTAPROXY")
    echo "   $DELTAPROXY"
}

make_node() {
    ip netns add "$node"
    ip -n "$node" link set lo up
    # The node's own addresses, and a default route so that service addresses are routable;
    # the bridge has no ports.
    ip -n "$node" link add eth0 type bridge
    ip -n "$node" link set eth0 up
    ip -n "$node" address add 10.200.0.2/16 dev eth0
    ip -n "$node" address add fd00:200::2/64 dev eth0 nodad
    ip -n "$node" route add default dev eth0
    ip -n "$node" -6 route add default dev eth0
    in_namespace "$node" bash -c \
        'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
}

# make_pod NAMESPACE NUMBER NAME : creates a pod at 10.4.0.NUMBER; with a NAME it serves HTTP on port 8080.
make_pod() {
    local pod=$1 number=$2 name=$3
    ip netns add "$pod"
    ip -n "$pod" link set lo up
    ip -n "$node" link add "pod$number" type veth peer name eth0 netns "$pod"
    ip -n "$node" link set "pod$number" up
    ip -n "$pod" link set eth0 up
    ip -n "$node" address add 10.4.0.1/32 dev "pod$number"
    ip -n "$node" address add fd00:10:4::1/128 dev "pod$number" nodad
    ip -n "$node" route add "10.4.0.$number" dev "pod$number"
    ip -n "$node" -6 route add "fd00:10:4::$number" dev "pod$number"
    ip -n "$pod" address add "10.4.0.$number/32" dev eth0
    ip -n "$pod" address add "fd00:10:4::$number/128" dev eth0 nodad
    ip -n "$pod" route add 10.4.0.1 dev eth0
    ip -n "$pod" -6 route add fd00:10:4::1 dev eth0
    ip -n "$pod" route add default via 10.4.0.1
    ip -n "$pod" -6 route add default via fd00:10:4::1
    [[ -n $name ]] || return 0
    cat >"$work/$name" <<END
#!/usr/bin/env bash
# Reads one request up to its empty line, and answers with the name of the pod.
while read -r line && [[ \$line != \$'\r' ]]; do :; done
printf 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello from $name\n'
END
    chmod +x "$work/$name"
    in_namespace "$pod" socat TCP6-LISTEN:8080,ipv6only=0,fork,reuseaddr "EXEC:$work/$name" \
        2>>"$work/socat.log" &
    started+=($!)
    until_true 10 in_namespace "$pod" curl --silent --fail http://127.0.0.1:8080/
}

start_daemon() {
    mkdir "$work/manifests"
    cp deploy/examples/*.yaml "$work/manifests"
    in_namespace "$node" "$DELTAPROXY" run --manifests "$work/manifests" \
        --conntrack-max-per-core 0 \
        --hostname-override node1 --cluster-cidr 10.4.0.0/14,fd00:10:4::/48 \
        --metrics-bind-address "$metrics" --healthz-bind-address "$health" -v=4 \
        >"$log" 2>&1 </dev/null &
    daemon=$!
    started+=("$daemon")
    until_true 20 in_namespace "$node" curl --silent --fail "http://$health/healthz"
    # The rules are in place when the storefront answers.
    until_true 20 in_namespace "$client" curl --silent --fail --max-time 1 "http://$service_v4/"
    until_true 20 in_namespace "$client" curl --silent --fail --max-time 1 "http://[$service_v6]/"
}

# request TIMES HOST : counts the responses by pod.
request() {
    local number
    for ((number = 0; number < $1; number++)); do
        in_namespace "$client" curl --silent --max-time 5 "http://$2/" || echo "no answer"
    done | sort | uniq -c | indent
}

remove_endpoint() {
    mark=$(wc -l <"$log")
    # Written to another file and moved into place: the daemon never reads a partial file.
    awk '/"(10\.4\.0|fd00:10:4:)[.:]13"/ { skip = 3 } skip > 0 { skip--; next } { print }' \
        deploy/examples/storefront.yaml >"$work/storefront.new"
    mv "$work/storefront.new" "$work/manifests/storefront.yaml"
    until_true 20 endpoint_is_gone
}

endpoint_is_gone() {
    # Not `iptables-save | grep -q`: grep exits at the first match, and the broken pipe would be
    # taken for "no match".
    local rules
    rules=$(in_namespace "$node" iptables-save -t nat)
    [[ $rules != *10.4.0.13:8080* ]] && grep -q 'scope="partial"' "$log"
}

# At -v=4 the daemon logs the text of each partial restore, from `*filter` or `*nat` to COMMIT.
show_payload() {
    tail -n "+$((mark + 1))" "$log" |
        awk '/\*(filter|nat)/ { on = 1 } on { print } /COMMIT/ { on = 0 }' | indent
}

show_last_sync() {
    echo "Log of the daemon:"
    grep 'synced' "$log" | tail -n 2 | indent || true
}

how_to_play() {
    say "Everything is running. In another terminal:"
    indent <<END
ip netns exec $client curl http://$service_v4/        send a request to the storefront
ip netns exec $node iptables-save -t nat              see the rules
ip netns exec $node curl http://$metrics/metrics      see the metrics
edit $work/manifests/*.yaml, and follow $log

Ctrl-C here removes everything.
END
}

cleanup() {
    local status=$? pid name
    trap - EXIT INT TERM
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for name in $(ip netns list 2>/dev/null | awk -v tag="$tag-" 'index($1, tag) == 1 { print $1 }'); do
        # Includes the children of the servers.
        ip netns pids "$name" | xargs --no-run-if-empty kill 2>/dev/null || true
        ip netns delete "$name" || true
    done
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

main "$@"
