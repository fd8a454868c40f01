// Declarations of Go files, and what differs in them.

package main

import (
	"cmp"
	"go/ast"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// A function, method, type, constant or variable at the top of a file; empty if a release lacks it.
type declaration struct {
	file string
	// Those of a name that a folder declares more than once, as `init`, are one.
	nodes []ast.Node
	files []*goFile
	text  string
}

// Returns the declarations of a folder by their name, `Proxier.syncProxyRules` for a method.
func (r *release) declarations(folder string) map[string]declaration {
	if known := r.declared[folder]; known != nil {
		return known
	}
	found := map[string]declaration{}
	r.declared[folder] = found
	add := func(file *goFile, name string, node ast.Node) {
		if name == "_" {
			return
		}
		d := found[name]
		// A name in tests as well, as `init`, is that of the program.
		if wasTest, isTest := strings.HasSuffix(d.file, "_test.go"), strings.HasSuffix(file.name, "_test.go"); d.file != "" && wasTest != isTest {
			if isTest {
				return
			}
			d = declaration{}
		}
		d.file, d.nodes, d.files = file.name, append(d.nodes, node), append(d.files, file)
		d.text += file.textOf(node)
		found[name] = d
	}
	for _, file := range r.load(folder).files {
		for _, declared := range file.tree.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				add(file, name, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(file, s.Name.Name, s)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(file, name.Name, s)
						}
					}
				}
			}
		}
	}
	return found
}

func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Reports whether two declarations differ in more than comments and spaces.
func (d declaration) differs(other declaration) bool {
	return d.text != other.text && d.tokens() != other.tokens()
}

func (d declaration) tokens() string {
	all := ""
	for i, node := range d.nodes {
		all += d.files[i].source(node) + "\n"
	}
	return all
}

// Returns the functions that are called or the fields of a type, and the string literals.
func (d declaration) names() (names, texts []string) {
	for i, node := range d.nodes {
		file := d.files[i]
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					texts = append(texts, n.Value)
				}
			case *ast.CallExpr:
				switch n.Fun.(type) {
				case *ast.Ident, *ast.SelectorExpr:
					names = append(names, file.source(n.Fun))
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, name := range field.Names {
						names = append(names, name.Name+" "+file.source(field.Type))
					}
				}
			}
			return true
		})
	}
	return names, texts
}

func (f *goFile) textOf(node ast.Node) string {
	return f.text[f.set.Position(node.Pos()).Offset:f.set.Position(node.End()).Offset]
}

// Returns the tokens of a node, so that comments and the width of lines make no difference.
func (f *goFile) source(node ast.Node) string {
	var s scanner.Scanner
	text, set := f.textOf(node), token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(text)), []byte(text), nil, 0)
	var out strings.Builder
	wasWord := false
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return strings.TrimSuffix(out.String(), ";")
		}
		if kind.IsOperator() {
			literal = kind.String()
		}
		isWord := kind.IsLiteral() || kind.IsKeyword()
		if isWord && wasWord {
			out.WriteByte(' ')
		}
		out.WriteString(literal)
		wasWord = isWord
	}
}

// Prints the files of the followed folders that differ, with their declarations.
func printFiles(old, new *release, ours *references) {
	section("Files that differ, and the declarations in them")
	paragraph("`+` is added, `-` is removed, `~` is changed; below it the calls, fields and strings that are\nadded and removed. `go mod download -json MODULE@VERSION` prints where the sources are.")
	for _, entry := range followed {
		for _, folder := range union(old.folders(entry.folder), new.folders(entry.folder)) {
			printFolder(old, new, ours, folder, entry.reason, func(file, name string) bool { return !strings.HasSuffix(file, "_test.go") })
		}
	}
	for _, entry := range followedFiles {
		if entry.names != "" {
			names := regexp.MustCompile(entry.names)
			printFolder(old, new, ours, path.Dir(entry.file), entry.reason,
				func(file, name string) bool { return file == entry.file && names.MatchString(name) })
			continue
		}
		before, after := old.read(entry.file), new.read(entry.file)
		if before != after {
			fileHeading(ours, entry.file, entry.reason)
			printDiffering("", strings.Split(before, "\n"), strings.Split(after, "\n"))
		}
	}
}

func printFolder(old, new *release, ours *references, folder, reason string, wanted func(file, name string) bool) {
	before, after := old.declarations(folder), new.declarations(folder)
	byFile := map[string][]string{}
	for _, name := range unionOfKeys(before, after) {
		was, is := before[name], after[name]
		file := cmp.Or(is.file, was.file)
		if was.differs(is) && wanted(file, name) {
			byFile[file] = append(byFile[file], name)
		}
	}
	for _, file := range sortedKeys(byFile) {
		fileHeading(ours, file, reason)
		for _, name := range byFile[file] {
			was, is := before[name], after[name]
			line(sign(was.text != "", is.text != "") + " " + name)
			ours.printOf(file, name, "    ")
			if is.text == "" {
				continue
			}
			namesBefore, textsBefore := was.names()
			namesAfter, textsAfter := is.names()
			if was.text != "" {
				printDiffering("    ", namesBefore, namesAfter)
			}
			printDiffering("    ", textsBefore, textsAfter)
		}
	}
}

func fileHeading(ours *references, file, reason string) {
	heading(file + " (" + reason + ")")
	ours.printOf(file, "", "")
}

func sign(was, is bool) string {
	switch {
	case !was:
		return "+"
	case !is:
		return "-"
	}
	return "~"
}

// Prints the tests of upstream that were added, removed and changed.
func printTests(old, new *release, ours *references) {
	section("Tests of upstream")
	paragraph("With the number of tests in the file before and after, as `tests/upstream` counts them.")
	for _, pattern := range tested {
		for _, folder := range union(old.folders(pattern), new.folders(pattern)) {
			before, after := old.declarations(folder), new.declarations(folder)
			changes, counts := map[string][]string{}, map[string][2]int{}
			for _, name := range unionOfKeys(before, after) {
				was, is := before[name], after[name]
				file := cmp.Or(is.file, was.file)
				if !strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(name, "Test") {
					continue
				}
				count := counts[file]
				count[0] += btoi(was.text != "")
				count[1] += btoi(is.text != "")
				counts[file] = count
				if was.differs(is) {
					changes[file] = append(changes[file], name)
				}
			}
			for _, file := range sortedKeys(changes) {
				heading(file + " " + number(counts[file][0]) + " -> " + number(counts[file][1]))
				for _, name := range changes[file] {
					line(sign(before[name].text != "", after[name].text != "") + " " + name)
					ours.printOf(file, name, "    ")
				}
			}
		}
	}
}

// Returns what the second list has more often than the first one, and the reverse, sorted.
func differing(before, after []string) (added, removed []string) {
	count := map[string]int{}
	for _, one := range before {
		count[one]--
	}
	for _, one := range after {
		count[one]++
	}
	for _, one := range sortedKeys(count) {
		switch {
		case count[one] > 0:
			added = append(added, one)
		case count[one] < 0:
			removed = append(removed, one)
		}
	}
	return added, removed
}
