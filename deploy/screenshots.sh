#!/usr/bin/env bash
# Makes the screenshots of deploy/docs/status-page.md with the real program, in Debian's `chromium`, made
# smaller by `pngquant`.
#
#   ./deploy/screenshots.sh [PROGRAM]     as root; PROGRAM is target/release/deltaproxy by default
#
# The daemon runs in a network namespace of its own. A wrapper of iptables-restore rejects one Service,
# so that a failed restore and a quarantine are on the page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(realpath "${1:-target/release/deltaproxy}")
namespace=screenshots-$$
work=$(mktemp -d)
daemon=

finish() {
    [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
    wait
    ip netns delete "$namespace"
    rm -rf "$work"
}
ip netns add "$namespace"
trap finish EXIT
ip -n "$namespace" link set lo up

# The programs of one backend, under the names that the daemon looks for.
mkdir "$work/bin" "$work/manifests"
for name in iptables ip6tables; do
    for suffix in '' -save -restore; do
        ln -s "$(command -v $name-nft$suffix)" "$work/bin/$name$suffix"
    done
done
rm "$work/bin/iptables-restore"
cat >"$work/bin/iptables-restore" <<'SCRIPT'
#!/bin/sh
payload=$(cat)
line=$(printf '%s\n' "$payload" | grep -n -m 1 -F 10.4.0.99 | cut -d: -f1)
if [ -n "$line" ]; then
    echo "iptables-restore: line $line failed" >&2
    exit 1
fi
printf '%s\n' "$payload" | exec iptables-nft-restore "$@"
SCRIPT
chmod +x "$work/bin/iptables-restore"
cp deploy/examples/* "$work/manifests"

PATH=$work/bin:$PATH ip netns exec "$namespace" "$program" run --manifests="$work/manifests" \
    --hostname-override=node1 --cluster-cidr=10.4.0.0/14,fd00:10:4::/48 --conntrack-max-per-core=0 \
    --iptables-backend=path >"$work/log" 2>&1 &
daemon=$!
page() { ip netns exec "$namespace" curl -sf "http://127.0.0.1:10249$1"; }
await() {
    for ((i = 0; i < 300; i++)); do
        ! page / | grep -q "$1" || return 0
        sleep 0.1
    done
    cat "$work/log" >&2
    return 1
}
await 'Last full sync.*took'
# Some changes for the sparkline, then one that is rejected.
for ((i = 0; i < 50; i++)); do
    sed -i "s/10\.4\.0\.[0-9]*/10.4.0.$((100 + i))/" "$work/manifests/admin.yaml"
    sleep 0.4
done
sed -i 's/10\.4\.0\.[0-9]*/10.4.0.99/' "$work/manifests/admin.yaml"
await 'in quarantine'

# shot NAME THEME SIZE PATH; a preferred color scheme of 0 is dark, 1 light.
shot() {
    local scheme=1
    [[ $2 != dark ]] || scheme=0
    ip netns exec "$namespace" chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
        --user-data-dir="$work/profile" --blink-settings=preferredColorScheme=$scheme \
        --window-size="$3" --screenshot="$work/$1-$2.png" "http://127.0.0.1:10249$4" 2>>"$work/chromium"
    pngquant --force --output "deploy/docs/$1-$2.png" 64 "$work/$1-$2.png"
}
for theme in light dark; do
    shot status-page "$theme" 1100,1740 /
    shot service-page "$theme" 1100,1160 /services/shop/public
done
# A browser says in its log what the policy of a page refuses.
if grep -i 'content.security.policy\|refused to' "$work/chromium"; then
    exit 1
fi
