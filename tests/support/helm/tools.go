//go:build tools

package conformance

import _ "helm.sh/helm/v4/cmd/helm"
