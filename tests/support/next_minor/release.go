// The sources of a release: its modules, fetched with the go tool, and their parsed packages.

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// One release of Kubernetes. Files and folders are named by their path in its repository; those of
// its staging modules by the import path, `k8s.io/client-go/rest`.
type release struct {
	version  string
	minor    int
	modules  map[string]*module
	packages map[string]*goPackage
	declared map[string]map[string]declaration
	// Folders of the packages that kube-proxy links, and the packages of other modules.
	linked, external []string
}

type module struct {
	version string
	dir     string
	// Whether the module is part of the repository of Kubernetes.
	staging bool
}

type goPackage struct {
	files     []*goFile
	constants map[string]constant
}

type goFile struct {
	name string
	tree *ast.File
	text string
	set  *token.FileSet
}

type constant struct {
	file  *goFile
	value ast.Expr
}

const kubernetes = "k8s.io/kubernetes"

// Files of other proxy modes and systems, fakes and helpers of tests, and what a generator writes.
var skipped = regexp.MustCompile(`(^|/)(ipvs|nftables|winkernel|localnodeportproxy|kubemark|testdata|testutil)(/|$)|zz_generated|_windows|(^|/)(fake|fake_custom_store|mutation_cache)(_test)?\.go$|generated\.pb\.go$`)

// Packages that register neither gates nor flags nor metrics.
var onlyTypes = regexp.MustCompile(`^k8s\.io/(api|client-go/(applyconfigurations|informers|kubernetes|listers))/`)

// The platform of the kube-proxy that is compared.
var platform = func() build.Context {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	return context
}()

func openRelease(version string) *release {
	minor, _ := strconv.Atoi(strings.Split(version, ".")[1])
	r := &release{version: version, minor: minor, packages: map[string]*goPackage{}, declared: map[string]map[string]declaration{}}
	r.modules = map[string]*module{kubernetes: {version: "v" + version, staging: true}}
	text, err := os.ReadFile(filepath.Join(r.dir(kubernetes), "go.mod"))
	if err != nil {
		fail(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(text), -1) {
		r.modules[match[1]] = &module{version: match[2]}
	}
	for _, match := range regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => \./staging/`).FindAllStringSubmatch(string(text), -1) {
		r.modules[match[1]] = &module{version: "v0" + version[1:], staging: true}
	}
	r.link("cmd/kube-proxy")
	return r
}

// Returns the folder that holds a module, which is fetched on first use.
func (r *release) dir(name string) string {
	m := r.modules[name]
	if m.dir != "" {
		return m.dir
	}
	dir, cause := download(name, m.version)
	if cause != nil && m.staging && name != kubernetes {
		if substitute := nearest(name, m.version); substitute != "" {
			m.version = substitute
			dir, cause = download(name, substitute)
		}
	}
	if cause != nil {
		fail(fmt.Errorf("cannot fetch %s %s: %w", name, m.version, cause))
	}
	m.dir = dir
	return dir
}

func download(name, version string) (string, error) {
	output, failure := exec.Command("go", "mod", "download", "-json", name+"@"+version).Output()
	var found struct{ Dir, Error string }
	if err := json.Unmarshal(output, &found); err != nil {
		return "", failure
	}
	if found.Error != "" {
		cause := strings.TrimPrefix(found.Error, name+"@"+version+": ")
		return "", fmt.Errorf("%s", strings.Join(strings.Fields(cause), " "))
	}
	return found.Dir, nil
}

// Returns the version that is nearest to one that a staging module lacks, as some do.
func nearest(name, version string) string {
	output, _ := exec.Command("go", "list", "-m", "-f", `{{join .Versions " "}}`, "-versions", name).Output()
	found, least := "", 1<<30
	wanted := ordinal(version)
	for _, other := range strings.Fields(string(output)) {
		distance := max(ordinal(other)-wanted, wanted-ordinal(other))
		if !strings.Contains(other, "-") && distance < least {
			found, least = other, distance
		}
	}
	return found
}

// Returns 37002 of `v0.37.2`.
func ordinal(version string) int {
	var major, minor, patch int
	fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch)
	return (major*1000+minor)*1000 + patch
}

// Returns the module that holds a file, folder or package; empty for the standard library.
func (r *release) moduleOf(name string) string {
	for prefix := name; prefix != "." && prefix != "/"; prefix = path.Dir(prefix) {
		if r.modules[prefix] != nil {
			return prefix
		}
	}
	first, _, _ := strings.Cut(name, "/")
	if _, err := os.Stat(filepath.Join(r.modules[kubernetes].dir, first)); err == nil {
		return kubernetes
	}
	return ""
}

// Returns where a file or folder is on this host; empty if the release lacks it.
func (r *release) locate(name string) string {
	owner := r.moduleOf(name)
	if owner == "" {
		return ""
	}
	located := filepath.Join(r.dir(owner), strings.TrimPrefix(name, owner))
	if _, err := os.Stat(located); err != nil {
		return ""
	}
	return located
}

func (r *release) read(name string) string {
	text, _ := os.ReadFile(r.locate(name))
	return string(text)
}

// Returns the folders that a pattern of the table covers.
func (r *release) folders(pattern string) []string {
	folder, below := strings.CutSuffix(pattern, "/...")
	root := r.locate(folder)
	if !below || root == "" {
		return []string{folder}
	}
	var found []string
	filepath.WalkDir(root, func(at string, entry os.DirEntry, err error) error {
		name := path.Join(folder, filepath.ToSlash(strings.TrimPrefix(at, root)))
		if err == nil && entry.IsDir() && !skipped.MatchString(name) {
			found = append(found, name)
		}
		return nil
	})
	return found
}

// Returns the Go files of a folder, parsed, as Linux compiles them and their tests.
func (r *release) load(folder string) *goPackage {
	if known := r.packages[folder]; known != nil {
		return known
	}
	loaded := &goPackage{constants: map[string]constant{}}
	r.packages[folder] = loaded
	dir := r.locate(folder)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".go" || skipped.MatchString(entry.Name()) {
			continue
		}
		if fits, err := platform.MatchFile(dir, entry.Name()); err != nil || !fits {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, entry.Name()))
		file := &goFile{name: path.Join(folder, entry.Name()), text: string(text), set: token.NewFileSet()}
		tree, err := parser.ParseFile(file.set, file.name, file.text, parser.SkipObjectResolution)
		if err != nil {
			fail(err)
		}
		file.tree = tree
		loaded.files = append(loaded.files, file)
		for _, declared := range tree.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				values := spec.(*ast.ValueSpec)
				for i, value := range values.Values {
					loaded.constants[values.Names[i].Name] = constant{file, value}
				}
			}
		}
	}
	return loaded
}

func (f *goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// Follows imports from a package on.
func (r *release) link(start string) {
	linked, external := map[string]bool{start: true}, map[string]bool{}
	for waiting := []string{start}; len(waiting) > 0; waiting = waiting[1:] {
		for _, file := range r.load(waiting[0]).files {
			if file.isTest() {
				continue
			}
			for _, imported := range file.tree.Imports {
				name, _ := strconv.Unquote(imported.Path.Value)
				name = strings.TrimPrefix(name, kubernetes+"/")
				if !strings.Contains(strings.Split(name, "/")[0], ".") && r.moduleOf(name) == "" || linked[name] {
					continue
				}
				owner := r.modules[r.moduleOf(name)]
				if owner == nil || !owner.staging {
					external[name] = true
				} else if !onlyTypes.MatchString(name) {
					linked[name] = true
					waiting = append(waiting, name)
				}
			}
		}
	}
	r.linked, r.external = sortedKeys(linked), sortedKeys(external)
}

// Returns the text that a constant expression has.
func (r *release) text(file *goFile, expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return r.text(file, e.X)
	case *ast.BinaryExpr:
		left, isLeft := r.text(file, e.X)
		right, isRight := r.text(file, e.Y)
		return left + right, isLeft && isRight && e.Op == token.ADD
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return r.text(file, e.Args[0])
		}
	case *ast.Ident:
		return r.constant(path.Dir(file.name), e.Name)
	case *ast.SelectorExpr:
		from, ok := e.X.(*ast.Ident)
		for _, imported := range file.tree.Imports {
			name, _ := strconv.Unquote(imported.Path.Value)
			name = strings.TrimPrefix(name, kubernetes+"/")
			alias := path.Base(name)
			if imported.Name != nil {
				alias = imported.Name.Name
			}
			if ok && alias == from.Name {
				return r.constant(name, e.Sel.Name)
			}
		}
	}
	return "", false
}

func (r *release) constant(folder, name string) (string, bool) {
	if owner := r.modules[r.moduleOf(folder)]; owner == nil || !owner.staging {
		return "", false
	}
	found, ok := r.load(folder).constants[name]
	if !ok {
		return "", false
	}
	return r.text(found.file, found.value)
}
