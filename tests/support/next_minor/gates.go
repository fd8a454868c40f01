// Feature gates, their defaults and prerequisites.

package main

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type gate struct {
	stage      string
	on, locked bool
	requires   []string
}

func (g gate) String() string {
	text := g.stage + ", " + onOff(g.on)
	if g.locked {
		text += ", locked"
	}
	return text
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Returns the gates of every package that kube-proxy links, as they are in this minor release.
func (r *release) gates() map[string]gate {
	gates, requires := map[string]gate{}, map[string][]string{}
	for _, folder := range r.linked {
		for _, file := range r.load(folder).files {
			ast.Inspect(file.tree, func(node ast.Node) bool {
				table, ok := node.(*ast.CompositeLit)
				if !ok || table.Type == nil || file.isTest() {
					return true
				}
				kind := file.source(table.Type)
				areSpecs := strings.HasPrefix(kind, "map[") && strings.HasSuffix(kind, "VersionedSpecs")
				areRequired := regexp.MustCompile(`^map\[.*Feature\]\[\].*Feature$`).MatchString(kind)
				for _, element := range table.Elts {
					pair, ok := element.(*ast.KeyValueExpr)
					if !ok || !areSpecs && !areRequired {
						continue
					}
					name, known := r.text(file, pair.Key)
					value, isList := pair.Value.(*ast.CompositeLit)
					if !known || !isList {
						fail(fmt.Errorf("cannot read gate %s of %s", file.source(pair.Key), file.name))
					}
					if areSpecs {
						gates[name] = r.gateOf(file, value)
					} else {
						for _, required := range value.Elts {
							other, _ := r.text(file, required)
							requires[name] = append(requires[name], other)
						}
					}
				}
				return true
			})
		}
	}
	for name, required := range requires {
		g := gates[name]
		slices.Sort(required)
		g.requires = required
		gates[name] = g
	}
	return gates
}

// Returns the last specification that applies to the minor release.
func (r *release) gateOf(file *goFile, specs *ast.CompositeLit) gate {
	applying, since := gate{stage: "PreAlpha"}, -1
	for _, element := range specs.Elts {
		spec, minor := gate{}, 0
		for _, field := range element.(*ast.CompositeLit).Elts {
			pair := field.(*ast.KeyValueExpr)
			value := file.source(pair.Value)
			switch file.source(pair.Key) {
			case "Version":
				minor = minorOf(value)
			case "MinCompatibilityVersion":
				// kube-proxy is compatible with the minor release before.
				if minorOf(value) >= r.minor {
					minor = r.minor + 1
				}
			case "Default":
				spec.on = value == "true"
			case "LockToDefault":
				spec.locked = value == "true"
			case "PreRelease":
				spec.stage = value[strings.LastIndex(value, ".")+1:]
			}
		}
		if minor <= r.minor && minor >= since {
			applying, since = spec, minor
		}
	}
	return applying
}

// Returns 37 of `version.MustParse("1.37")` and of `version.MajorMinor(1, 37)`.
func minorOf(version string) int {
	match := regexp.MustCompile(`\d+[.,](\d+)`).FindStringSubmatch(version)
	if match == nil {
		fail(fmt.Errorf("cannot read version %s", version))
	}
	minor, _ := strconv.Atoi(match[1])
	return minor
}

// Returns the gates that cannot be set to a value alone, because of what they require or of what
// requires them. `AllAlpha` and `AllBeta` set all gates of their stage.
func notAlone(gates map[string]gate, value bool) []string {
	var found []string
	for _, name := range sortedKeys(gates) {
		g := gates[name]
		if g.on == value || g.locked || g.stage == "PreAlpha" {
			continue
		}
		stage, isSwitch := strings.CutPrefix(name, "All")
		isOn := func(other string) bool {
			o := gates[other]
			if other == name || isSwitch && o.stage == stage && !o.locked {
				return value
			}
			return o.on
		}
		for other, o := range gates {
			if isOn(other) && slices.ContainsFunc(o.requires, func(required string) bool { return !isOn(required) }) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

func printGates(old, new *release) {
	before, after := old.gates(), new.gates()
	section("Feature gates")
	paragraph(fmt.Sprintf("kube-proxy %s knows %d gates, %s knows %d.", old.version, len(before), new.version, len(after)))
	groups := map[string][]string{}
	for _, name := range unionOfKeys(before, after) {
		was, isOld := before[name]
		is, isNew := after[name]
		required := fmt.Sprintf("%v -> %v", was.requires, is.requires)
		isRequired := fmt.Sprint(was.requires) == fmt.Sprint(is.requires)
		group, text := "", name+": "+was.String()+" -> "+is.String()
		switch {
		case !isOld:
			group, text = "1. Added, settable", name+": "+is.String()
			required = strings.Join(is.requires, " ")
			if is.locked {
				group = "2. Added, locked " + onOff(is.on)
			}
		case !isNew:
			group, text = "3. Removed, were settable", name+": "+was.String()
			isRequired = true
			if was.locked {
				group = "4. Removed, were locked " + onOff(was.on)
			}
		case !was.locked && is.locked:
			group = "5. Locked " + onOff(is.on) + ", were settable"
		case was.locked && !is.locked:
			group = "6. Settable, were locked"
		case was.on != is.on:
			group = "7. Another default"
		case was.stage != is.stage:
			group = "8. Another stage"
		case !isRequired:
			group, text = "9. Other prerequisites", name
		default:
			continue
		}
		if !isRequired {
			text += ", prerequisites " + required
		}
		groups[group] = append(groups[group], text)
	}
	for _, group := range sortedKeys(groups) {
		heading(fmt.Sprintf("%s (%d)", group[3:], len(groups[group])))
		for _, text := range groups[group] {
			line(text)
		}
	}
	for _, value := range []bool{false, true} {
		was, is := notAlone(before, value), notAlone(after, value)
		heading("Cannot be turned " + onOff(value) + " alone, because of prerequisites")
		line(old.version + ": " + strings.Join(was, " "))
		line(new.version + ": " + strings.Join(is, " "))
	}
}
