#!/usr/bin/env bash
# Prints the manifest with which krew installs the archives of a release as a plugin of kubectl.
#
#   ./deploy/release/krew.sh DIR VERSION SOURCE_URL
#
# Two runs for the same archives print the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly set=${1:?} version=${2:?} source=${3:?}

# platform ARCH : the archive, what is installed of it, and the program.
platform() {
    local name=deltaproxy-$version-linux-$1 sum
    sum=$(sha256sum "$set/$name.tar.gz" | cut -d ' ' -f 1)
    cat <<END
    - selector:
        matchLabels:
          os: linux
          arch: $1
      uri: $source/releases/download/$version/$name.tar.gz
      sha256: $sum
      files:
        - from: "$name/bin/deltaproxy"
          to: "."
        - from: "$name/share/doc/deltaproxy/*"
          to: "doc"
      bin: "deltaproxy"
END
}

cat <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: deltaproxy
spec:
  version: $version
  homepage: $source
  shortDescription: Show and explain the Service rules of nodes
  description: |
    Reads the iptables rules of Services on any node of a cluster, and changes
    nothing:

      kubectl deltaproxy status --all-nodes
      kubectl deltaproxy services --node NODE
      kubectl deltaproxy explain NAMESPACE/SERVICE --node NODE

    On nodes with deltaproxy it asks the proxy by port-forward, on others it runs
    iptables-save in the Pod of kube-proxy.
  caveats: |
    To complete commands and flags, link the program to kubectl_complete-deltaproxy
    in a folder of PATH:

      ln -s "\$(command -v kubectl-deltaproxy)" kubectl_complete-deltaproxy
  platforms:
$(for arch in amd64 arm64; do platform "$arch"; done)
END
