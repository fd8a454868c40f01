// Prints what differs for a kube-proxy in mode iptables between two releases of Kubernetes.
//
// Sources are compared as syntax, without comments. tests/next-minor.sh calls it.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var out = bufio.NewWriter(os.Stdout)

func section(title string)  { fmt.Fprintf(out, "\n## %s\n", title) }
func heading(title string)  { fmt.Fprintf(out, "\n### %s\n\n", title) }
func paragraph(text string) { fmt.Fprintf(out, "\n%s\n\n", text) }
func line(text string)      { fmt.Fprintln(out, text) }

// Prints what only the second list has, and what only the first one has.
func printDiffering(indent string, before, after []string) {
	added, removed := differing(before, after)
	for _, text := range added {
		line(indent + "+ " + text)
	}
	for _, text := range removed {
		line(indent + "- " + text)
	}
}

// Held by the first failure, so that those of the other release are not printed.
var failing sync.Mutex

func fail(err error) {
	failing.Lock()
	fmt.Fprintln(os.Stderr, "next-minor.sh: "+err.Error())
	os.Exit(1)
}

func sortedKeys[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func unionOfKeys[V any](a, b map[string]V) []string { return union(sortedKeys(a), sortedKeys(b)) }

func number(n int) string { return strconv.Itoa(n) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func main() {
	root, versions := os.Args[1], os.Args[2:]
	var releases [2]*release
	var opening sync.WaitGroup
	for i, version := range versions {
		opening.Go(func() { releases[i] = openRelease(version) })
	}
	opening.Wait()
	old, new := releases[0], releases[1]
	ours := readReferences(root, old, new)
	fmt.Fprintf(out, "# kube-proxy %s and %s\n", old.version, new.version)
	printLinked(old, new)
	printGates(old, new)
	unshared, gone := differing(old.external, new.external)
	external := union(unshared, gone)
	printTable("Flags", "Of kube-proxy, component-base, and imports that only one release has.", old.flags(external), new.flags(external))
	printTable("Fields", "Of the configuration file, and of the objects that kube-proxy reads.", old.fields(), new.fields())
	printTable("Metrics", "Of every package that kube-proxy links.", old.metrics(), new.metrics())
	section("ClusterRole system:node-proxier")
	paragraph("Rules that only one release has:")
	printDiffering("", clusterRole(old), clusterRole(new))
	printFiles(old, new, ours)
	printInits(old, new)
	printTests(old, new, ours)
	ours.printStale(old, new)
	out.Flush()
}

// Prints the modules, and which packages are linked by one release only.
func printLinked(old, new *release) {
	section("Packages that kube-proxy links")
	paragraph("Go " + strings.TrimSpace(old.read(".go-version")) + " -> " + strings.TrimSpace(new.read(".go-version")) + ". Versions of modules:")
	for _, name := range unionOfKeys(old.modules, new.modules) {
		was, is := old.used(name), new.used(name)
		if was != is {
			line(name + ": " + was + " -> " + is)
		}
	}
	heading("Only one release links these packages, with their gates, flags and metrics")
	printDiffering("", slices.Concat(old.linked, old.external), slices.Concat(new.linked, new.external))
}

// Returns the version of a module that the program links or whose types are read, `none` for others.
func (r *release) used(name string) string {
	m := r.modules[name]
	isLinked := func(linked string) bool { return linked == name || strings.HasPrefix(linked, name+"/") }
	read := slices.Concat(r.linked, r.external, []string{"k8s.io/api/core/v1"})
	if m == nil || name != kubernetes && !slices.ContainsFunc(read, isLinked) {
		return "none"
	}
	if expected := "v0" + r.version[1:]; m.staging && name != kubernetes && m.version != expected {
		return m.version + " (the nearest to " + expected + ")"
	}
	return m.version
}

// Returns the lines of the role in the test data of upstream.
func clusterRole(r *release) []string {
	text := r.read("plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata/cluster-roles.yaml")
	for _, role := range regexp.MustCompile(`(?m)^- apiVersion`).Split(text, -1) {
		if _, rules, ok := strings.Cut(role, "name: system:node-proxier\n"); ok {
			entries := strings.Split(rules, "\n  - ")
			for i := range entries {
				entries[i] = strings.Join(strings.Fields(entries[i]), " ")
			}
			return entries
		}
	}
	return nil
}
