// Reads each manifest beside it as kubectl does, and writes `judged.json`: the objects of each file,
// one a line, or `null` if kubectl rejects it. In a module that requires k8s.io/apimachinery v0.36.3:
// `go run judge.go DIRECTORY`.
//
//go:build ignore

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// objects decodes a file as k8s.io/cli-runtime/pkg/resource, StreamVisitor.Visit, does.
func objects(text []byte) []json.RawMessage {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	found := []json.RawMessage{}
	for {
		object := runtime.RawExtension{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			return nil
		}
		raw := bytes.TrimSpace(object.Raw)
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			found = append(found, raw)
		}
	}
}

// written returns the objects in JSON, one a line.
func written(objects []json.RawMessage) string {
	if objects == nil {
		return "null"
	}
	var lines []string
	for _, object := range objects {
		line, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		lines = append(lines, "  "+string(line))
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n ]"
}

func main() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.yaml"))
	if err != nil {
		panic(err)
	}
	var entries []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		os.Stderr.WriteString(filepath.Base(file) + "\n")
		entries = append(entries, fmt.Sprintf(" %q: %s", filepath.Base(file), written(objects(text))))
	}
	out := "{\n" + strings.Join(entries, ",\n") + "\n}\n"
	if err := os.WriteFile(filepath.Join(os.Args[1], "judged.json"), []byte(out), 0o644); err != nil {
		panic(err)
	}
}
