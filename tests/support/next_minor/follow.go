// Tables of what deltaproxy follows.

package main

// Folders of Kubernetes whose changes deltaproxy follows; `/...` includes the folders below. A line of
// ours that names a file outside of them is printed in the last section, so that nothing is missed.
var followed = []struct{ folder, reason string }{
	{"cmd/kube-proxy/...", "the program"},
	{"pkg/proxy/...", "rules, conntrack, health checks, validation, defaults"},
	{"pkg/util/iptables/...", "calls of the iptables programs"},
	{"pkg/util/filesystem", "watch of the configuration file"},
	{"pkg/util/node", "addresses of the Node"},
	{"pkg/util/oom", "score of the process"},
	{"pkg/api/service", "health check node ports"},
	{"pkg/api/v1/service", "external traffic policy"},
	{"pkg/registry/core/service/...", "fields that the API server fills in, for --manifests"},
	{"pkg/apis/discovery/validation", "validation of EndpointSlices, for --manifests"},
	{"cmd/kubeadm/app/componentconfigs", "configuration that kubeadm writes"},
	{"cmd/kubeadm/app/phases/addons/proxy", "manifests that kubeadm installs"},
	{"cmd/kubeadm/app/util/patches", "patches of those manifests"},
	{"k8s.io/kube-proxy/config/...", "configuration file"},
	{"k8s.io/component-base/cli/...", "parsing and printing of flags"},
	{"k8s.io/component-base/config/v1alpha1", "configuration file"},
	{"k8s.io/component-base/configz", "page /configz"},
	{"k8s.io/component-base/featuregate", "parsing of feature gates"},
	{"k8s.io/component-base/logs/...", "flags and formats of the log"},
	{"k8s.io/component-base/metrics/...", "metrics and their text"},
	{"k8s.io/component-base/compatibility", "version in /statusz"},
	{"k8s.io/component-base/version/...", "flag --version"},
	{"k8s.io/component-helpers/node/util/...", "name of the Node, sysctls"},
	{"k8s.io/component-helpers/scheduling/corev1/nodeaffinity", "placement in the guides' tests"},
	{"k8s.io/apiserver/pkg/server/flagz/...", "page /flagz"},
	{"k8s.io/apiserver/pkg/server/statusz/...", "page /statusz"},
	{"k8s.io/apiserver/pkg/server/healthz", "health pages"},
	{"k8s.io/apiserver/pkg/server/routes", "page /debug/flags"},
	{"k8s.io/apiserver/pkg/endpoints/handlers/negotiation", "media types of the pages"},
	{"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters", "encoding and compression of the API server"},
	{"k8s.io/apimachinery/pkg/util/framer", "frames of watches"},
	{"k8s.io/apimachinery/pkg/util/net", "HTTP/2 settings"},
	{"k8s.io/apimachinery/pkg/util/yaml", "documents of --manifests"},
	{"k8s.io/apimachinery/pkg/util/validation/...", "problems of --manifests"},
	{"k8s.io/apimachinery/pkg/api/validate/content", "names in --manifests"},
	{"k8s.io/apimachinery/pkg/runtime/serializer/protobuf", "encoding of objects"},
	{"k8s.io/apimachinery/pkg/version", "answer of /version"},
	{"k8s.io/client-go/features", "feature gates of clients"},
	{"k8s.io/client-go/rest", "requests"},
	{"k8s.io/client-go/transport", "credentials"},
	{"k8s.io/client-go/tools/cache", "lists and watches"},
	{"k8s.io/client-go/tools/clientcmd", "kubeconfig"},
	{"k8s.io/client-go/tools/events", "events"},
	{"k8s.io/client-go/util/flowcontrol", "rate limit"},
	{"k8s.io/endpointslice", "slices that --manifests make"},
	{"k8s.io/kubectl/pkg/cmd/diff", "exit status of diff"},
}

type followedFile struct{ file, names, reason string }

// Files that are followed in folders that are not, with an expression for the names in them.
var followedFiles = []followedFile{
	{"build/common.sh", "", "base images"},
	{"k8s.io/apiserver/pkg/endpoints/handlers/watch.go", `.`, "watches that the API server sends"},
	{"pkg/apis/core/validation/validation.go", `(?i)service|clusterip|ipfamil|endpointip|loadbalancer`, "validation of Services, for --manifests"},
}

// Folders whose tests tests/upstream counts.
var tested = []string{"cmd/kube-proxy/...", "k8s.io/kube-proxy/...", "pkg/proxy/...", "pkg/util/iptables/..."}

// Files that other sections cover, and descriptions of encodings, which never change but by fields.
var covered = []string{
	"k8s.io/api/core/v1/generated.proto",
	"k8s.io/api/core/v1/types.go",
	"k8s.io/api/discovery/v1/generated.proto",
	"k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto",
	"k8s.io/apimachinery/pkg/runtime/generated.proto",
	"pkg/features/kube_features.go",
	"plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go",
}
