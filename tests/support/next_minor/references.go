// Lines of deltaproxy that name files and functions of upstream.

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A line of ours that names a file or folder of upstream, and perhaps names and phrases in it.
type reference struct {
	at, file       string
	names, phrases []string
	// Whether one of the names is a declaration of the file, and not part of one.
	isNarrow bool
}

type references struct {
	all []*reference
	// Lines that name another project or another release.
	unchecked []string
}

var (
	comment   = regexp.MustCompile(`^\s*(//[/!]?|#)\s*`)
	label     = regexp.MustCompile(`^[A-Z][\w ]*:`)
	tag       = regexp.MustCompile(`\(v1\.\d+[^)]*\)`)
	phrase    = regexp.MustCompile(`"[^"]*"`)
	separator = regexp.MustCompile(`[,;]|\band\b|\bin\b`)
	fileName  = regexp.MustCompile(`/|\w\.(go|proto|sh)$`)
	goName    = regexp.MustCompile(`^[A-Za-z_][\w.]*$`)
)

// Reads `Upstream:` lines and the tables of tests/upstream.
func readReferences(root string, old, new *release) *references {
	found := &references{}
	for _, top := range []string{"src", "tests", "deploy", "benches"} {
		filepath.WalkDir(filepath.Join(root, top), func(at string, entry os.DirEntry, err error) error {
			if err != nil || entry.Name() == "next_minor" {
				return filepath.SkipDir
			}
			if !entry.Type().IsRegular() {
				return nil
			}
			name, _ := filepath.Rel(root, at)
			text, _ := os.ReadFile(at)
			lines, section := strings.Split(string(text), "\n"), ""
			isTable := path.Dir(name) == "tests/upstream"
			for i, text := range lines {
				place := fmt.Sprintf("%s:%d", name, i+1)
				if _, after, ok := strings.Cut(text, "Upstream: "); ok && comment.MatchString(text) {
					found.add(place, statement(after, lines[i+1:]), old, new)
				} else if isTable && strings.HasPrefix(text, "[") {
					section, _, _ = strings.Cut(text[1:], "]")
					// A staging module, by the name of its folder.
					if strings.HasPrefix(section, "kube-proxy/") {
						section = "k8s.io/" + section
					}
				} else if isTable && strings.HasPrefix(text, "Test") && goName.MatchString(text) {
					found.all = append(found.all, &reference{at: place, file: section, names: []string{text}})
				}
			}
			return nil
		})
	}
	for _, r := range found.all {
		r.isNarrow = slices.ContainsFunc(r.names, func(name string) bool {
			isDeclared := func(full string) bool { return isCalled(full, name) }
			return slices.ContainsFunc(unionOfKeys(old.declarations(path.Dir(r.file)), new.declarations(path.Dir(r.file))), isDeclared)
		})
	}
	return found
}

// Reports whether a line of ours may call a declaration so: methods often stand without their type.
func isCalled(full, name string) bool { return full == name || strings.HasSuffix(full, "."+name) }

// Returns a statement, which may go on in the comment lines below.
func statement(text string, below []string) string {
	for _, next := range below {
		rest := comment.ReplaceAllString(next, "")
		isWhole := tag.MatchString(text) && !strings.HasSuffix(text, ";")
		if isWhole || !comment.MatchString(next) || rest == "" || label.MatchString(rest) {
			break
		}
		text += " " + rest
	}
	return text
}

func (o *references) add(at, text string, old, new *release) {
	for _, release := range tag.FindAllString(text, -1) {
		if release != fmt.Sprintf("(v1.%d)", old.minor) && release != fmt.Sprintf("(v1.%d)", new.minor) {
			o.unchecked = append(o.unchecked, at+": "+text)
			return
		}
	}
	text, _, _ = strings.Cut(text, "; KEP:")
	before, after, _ := strings.Cut(tag.ReplaceAllString(text, "\n"), "\n")
	if strings.HasPrefix(after, ";") {
		before += after
	}
	var current *reference
	var waiting []string
	isOther := false
	for _, segment := range separator.Split(phrase.ReplaceAllString(before, ","), -1) {
		words := strings.Fields(segment)
		for _, quoted := range words {
			token := strings.Trim(quoted, "`.")
			switch {
			case fileName.MatchString(token):
				token = strings.TrimPrefix(token, "staging/src/")
				if !strings.Contains(token, "/") && current != nil {
					token = path.Join(strings.TrimSuffix(current.file, "/"+lastOf(current.file)), token)
				}
				owner := new.modules[new.moduleOf(token)]
				isOther = owner == nil || !owner.staging || isOther && !strings.HasPrefix(token, "k8s.io/")
				if isOther {
					o.unchecked = union(o.unchecked, []string{at + ": " + text})
					continue
				}
				current = &reference{at: at, file: token, names: waiting}
				o.all, waiting = append(o.all, current), nil
			case !goName.MatchString(token) || len(words) > 1 && quoted[0] != '`' || isOther:
			case current == nil:
				waiting = append(waiting, token)
			default:
				current.names = append(current.names, token)
			}
		}
	}
	if current == nil {
		o.unchecked = union(o.unchecked, []string{at + ": " + text})
		return
	}
	for _, quoted := range phrase.FindAllString(before, -1) {
		current.phrases = append(current.phrases, strings.Trim(quoted, "\"`"))
	}
}

// Returns the file of a path, empty for a folder.
func lastOf(name string) string {
	if path.Ext(name) == "" {
		return ""
	}
	return path.Base(name)
}

// Prints the lines of ours that follow a declaration; with an empty name, those that name the file
// or its folder and no declaration in it.
func (o *references) printOf(file, name, indent string) {
	for _, r := range o.all {
		if r.file != file && r.file != path.Dir(file) {
			continue
		}
		isNamed := slices.ContainsFunc(r.names, func(one string) bool { return isCalled(name, one) })
		if isNamed || name == "" && !r.isNarrow {
			line(indent + "ours: " + r.at)
		}
	}
}

// Prints the lines of ours that name what the new release lacks.
func (o *references) printStale(old, new *release) {
	section("References")
	paragraph("`Upstream:` lines that name what " + new.version + " lacks:")
	var outside []string
	for _, r := range o.all {
		if new.locate(r.file) == "" {
			line(r.at + ": " + r.file + " is missing" + alsoIn(old, old.locate(r.file) != ""))
			continue
		}
		if !isFollowed(r.file) {
			outside = append(outside, r.at+": "+r.file)
		}
		before, after := old.textOf(r.file), new.textOf(r.file)
		for _, name := range r.names {
			has := regexp.MustCompile(`\b` + name[strings.LastIndex(name, ".")+1:] + `\b`).MatchString
			if !has(after) {
				line(r.at + ": " + r.file + " has no `" + name + "`" + alsoIn(old, has(before)))
			}
		}
		for _, phrase := range r.phrases {
			has := func(text string) bool { return strings.Contains(plain(text), plain(phrase)) }
			if !has(after) {
				line(r.at + ": " + r.file + " has no \"" + phrase + "\"" + alsoIn(old, has(before)))
			}
		}
	}
	for _, entry := range followed {
		if folder := strings.TrimSuffix(entry.folder, "/..."); new.locate(folder) == "" {
			line("tests/support/next_minor/follow.go: " + folder + " is missing" + alsoIn(old, old.locate(folder) != ""))
		}
	}
	heading("Files that `Upstream:` lines name, outside of the followed folders")
	printAll(outside)
	heading("Lines that name another project or another release, not checked")
	printAll(o.unchecked)
}

// Returns text without the marks and line breaks of comments.
func plain(text string) string { return regexp.MustCompile(`[\s/"]+`).ReplaceAllString(text, " ") }

func alsoIn(old *release, has bool) string {
	if has {
		return "; " + old.version + " has it"
	}
	return "; " + old.version + " lacks it as well"
}

// Returns the text of a file, or of all files of a folder.
func (r *release) textOf(name string) string {
	if lastOf(name) != "" {
		return r.read(name)
	}
	text := ""
	for _, file := range r.load(name).files {
		text += file.text
	}
	return text
}

// Reports whether a folder, or the folder of a file, is in the table.
func isFollowed(name string) bool {
	at := name
	if lastOf(name) != "" {
		at = path.Dir(name)
	}
	for _, entry := range followed {
		folder, below := strings.CutSuffix(entry.folder, "/...")
		if at == folder || below && strings.HasPrefix(at, folder+"/") {
			return true
		}
	}
	return slices.Contains(covered, name) || slices.ContainsFunc(followedFiles, func(entry followedFile) bool { return entry.file == name })
}

func printAll(lines []string) {
	for _, text := range lines {
		line(text)
	}
}
