// Flags, fields and metrics.

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Calls that register a flag in a set of flags, and those of package flag.
var (
	flagMethod  = regexp.MustCompile(`^([A-Z]\w*)?Var(P|PF)?$`)
	flagPackage = regexp.MustCompile(`^(flag|pflag)\.(Bool|Duration|Float64|Int|Int64|String|Uint|Uint64)$`)
)

// Returns the flags that a package registers, with type, default and help.
func (r *release) flagsIn(folder string, flags map[string]string) {
	for _, file := range r.load(folder).files {
		if file.isTest() {
			continue
		}
		ast.Inspect(file.tree, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			function := file.source(call.Fun)
			method := function[strings.LastIndex(function, ".")+1:]
			args := call.Args
			switch {
			case flagMethod.MatchString(method) && len(args) > 2:
				args = args[1:]
			case flagPackage.MatchString(function), method == "MarkDeprecated" && len(args) == 2:
			default:
				return true
			}
			name, known := r.text(file, args[0])
			if !known || strings.ContainsAny(name, " %") {
				return true
			}
			if method == "MarkDeprecated" {
				text, _ := r.text(file, args[1])
				flags[name+" (deprecated)"] = text
				return true
			}
			fallback := ""
			if strings.HasSuffix(method, "P") {
				args = args[1:]
			}
			if len(args) > 2 {
				fallback = ", default " + file.source(args[len(args)-2])
			}
			help, isText := r.text(file, args[len(args)-1])
			if !isText {
				help = file.source(args[len(args)-1])
			}
			flags[name] = cmp.Or(strings.TrimSuffix(strings.TrimSuffix(method, "P"), "Var"), "Value") + fallback + ": " + help
			return true
		})
	}
}

// Returns the flags of the program, of the component library, and of packages of other modules
// that only one of the releases links: those register theirs without being asked.
func (r *release) flags(external []string) map[string]string {
	flags := map[string]string{}
	for _, folder := range r.linked {
		if strings.HasPrefix(folder, "cmd/") || strings.HasPrefix(folder, "k8s.io/component-base/") {
			r.flagsIn(folder, flags)
		}
	}
	for _, folder := range external {
		if slices.Contains(r.external, folder) {
			own := map[string]string{}
			r.flagsIn(folder, own)
			for name, text := range own {
				flags[strings.ReplaceAll(name, "_", "-")] = text + " (from " + folder + ")"
			}
		}
	}
	return flags
}

// Types whose fields kube-proxy reads, by folder.
var roots = []struct {
	folder string
	types  []string
}{
	{"k8s.io/kube-proxy/config/v1alpha1", []string{"KubeProxyConfiguration"}},
	{"k8s.io/component-base/config/v1alpha1", []string{"ClientConnectionConfiguration"}},
	{"k8s.io/component-base/logs/api/v1", []string{"LoggingConfiguration"}},
	{"k8s.io/api/core/v1", []string{"Service", "Node"}},
	{"k8s.io/api/discovery/v1", []string{"EndpointSlice"}},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", []string{"ObjectMeta"}},
}

// Returns the fields of the types, and of those of the same package in them.
func (r *release) fields() map[string]string {
	fields := map[string]string{}
	for _, root := range roots {
		types := map[string]*ast.StructType{}
		files := map[string]*goFile{}
		for _, file := range r.load(root.folder).files {
			ast.Inspect(file.tree, func(node ast.Node) bool {
				if spec, ok := node.(*ast.TypeSpec); ok {
					if structure, ok := spec.Type.(*ast.StructType); ok {
						types[spec.Name.Name], files[spec.Name.Name] = structure, file
					}
				}
				return true
			})
		}
		seen := map[string]bool{}
		for waiting := slices.Clone(root.types); len(waiting) > 0; waiting = waiting[1:] {
			name := waiting[0]
			if types[name] == nil || seen[name] {
				continue
			}
			seen[name] = true
			for _, field := range types[name].Fields.List {
				kind, tag := files[name].source(field.Type), ""
				if field.Tag != nil {
					tag = " " + strings.Trim(regexp.MustCompile(`json:"[^"]*"`).FindString(field.Tag.Value), "`")
				}
				waiting = append(waiting, regexp.MustCompile(`\w+`).FindAllString(kind, -1)...)
				for _, one := range field.Names {
					fields[root.folder+" "+name+"."+one.Name] = kind + tag
				}
			}
		}
	}
	return fields
}

// Returns the metrics of every package that kube-proxy links.
func (r *release) metrics() map[string]string {
	metrics := map[string]string{}
	for _, folder := range r.linked {
		for _, file := range r.load(folder).files {
			if !file.isTest() {
				r.metricsIn(file, metrics)
			}
		}
	}
	return metrics
}

func (r *release) metricsIn(file *goFile, metrics map[string]string) {
	ast.Inspect(file.tree, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if name, text := r.metric(file, call); name != "" {
				metrics[name] = text
			}
		}
		return true
	})
}

// Prints the packages whose functions `init`, which register metrics and flags, differ.
func printInits(old, new *release) {
	section("Functions init that differ in other packages")
	paragraph("With the metrics of their files: one that is not registered is not served.")
	for _, folder := range union(old.linked, new.linked) {
		was, is := old.declarations(folder)["init"], new.declarations(folder)["init"]
		isTest := strings.HasSuffix(was.file+is.file, "_test.go")
		if isFollowed(folder) || isTest || !was.differs(is) {
			continue
		}
		line(sign(was.text != "", is.text != "") + " " + folder)
		before, _ := was.names()
		after, _ := is.names()
		printDiffering("    ", before, after)
		metrics := map[string]string{}
		for _, file := range was.files {
			old.metricsIn(file, metrics)
		}
		for _, file := range is.files {
			new.metricsIn(file, metrics)
		}
		for _, name := range sortedKeys(metrics) {
			line("    metric " + name)
		}
	}
}

// Returns name and properties of the metric that a call makes.
func (r *release) metric(file *goFile, call *ast.CallExpr) (name, text string) {
	function := file.source(call.Fun)
	kind, isNew := strings.CutPrefix(function[strings.LastIndex(function, ".")+1:], "New")
	if !isNew || len(call.Args) == 0 {
		return "", ""
	}
	value := func(e ast.Expr) string {
		if text, ok := r.text(file, e); ok {
			return text
		}
		return file.source(e)
	}
	if kind == "Desc" && len(call.Args) > 2 {
		name = value(call.Args[0])
		if build, ok := call.Args[0].(*ast.CallExpr); ok && len(build.Args) == 3 {
			name = fullName(value(build.Args[0]), value(build.Args[1]), value(build.Args[2]))
		}
		return name, kind + " " + file.source(call.Args[2]) + " " + value(call.Args[1])
	}
	pointer, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return "", ""
	}
	options, ok := pointer.X.(*ast.CompositeLit)
	if !ok || !strings.HasSuffix(file.source(options.Type), "Opts") {
		return "", ""
	}
	fields, others := map[string]string{}, ""
	for _, element := range options.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := file.source(pair.Key); key {
		case "Namespace", "Subsystem", "Name", "Help":
			fields[key] = value(pair.Value)
		case "StabilityLevel":
			others += " " + path.Base(strings.ReplaceAll(file.source(pair.Value), ".", "/"))
		default:
			others += " " + key + "=" + file.source(pair.Value)
		}
	}
	labels := ""
	if len(call.Args) > 1 {
		labels = " " + file.source(call.Args[1])
	}
	return fullName(fields["Namespace"], fields["Subsystem"], fields["Name"]), kind + labels + others + ": " + fields["Help"]
}

func fullName(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "_")
}

// Prints what differs between two tables of names with their properties.
func printTable(title, note string, before, after map[string]string) {
	section(title)
	paragraph(fmt.Sprintf("%s %d before, %d after.", note, len(before), len(after)))
	for _, name := range unionOfKeys(before, after) {
		was, isOld := before[name]
		is, isNew := after[name]
		switch {
		case was == is && isOld == isNew:
		case isOld && isNew:
			line("~ " + name)
			printDiffering("    ", []string{was}, []string{is})
		case isNew:
			line("+ " + name + " " + is)
		default:
			line("- " + name + " " + was)
		}
	}
}
