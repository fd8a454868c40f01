// Prints the feature gates of kube-proxy, as src/config/feature_gates has them: name, stage,
// default, `locked` if it cannot be changed, and the gates that it requires.
//
// Run in the folder of go.mod, which has the release: go run ./gates >1.N.txt
package main

import (
	"fmt"
	"sort"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/cmd/kube-proxy/app"
)

func main() {
	gates := utilfeature.DefaultMutableFeatureGate
	dependencies := gates.Dependencies()
	var lines []string
	for name, spec := range gates.GetAll() {
		words := []string{string(name), stage(spec), onOrOff(spec.Default)}
		if spec.LockToDefault {
			words = append(words, "locked")
		}
		for _, required := range dependencies[name] {
			words = append(words, "requires="+string(required))
		}
		sort.Strings(words[3:])
		lines = append(lines, strings.Join(words, " "))
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

func stage(spec featuregate.FeatureSpec) string {
	if spec.PreRelease == featuregate.GA {
		return "ga"
	}
	return strings.ToLower(string(spec.PreRelease))
}

func onOrOff(enabled bool) string {
	if enabled {
		return "on"
	}
	return "off"
}
