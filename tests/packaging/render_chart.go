// SPDX-License-Identifier: Apache-2.0

// Renders a chart as Helm does, for charts that use its template functions and values, and none of its rules about
// dependencies, hooks or capabilities: text/template with the functions of sprig, and include, toYaml and Files.
//
//	go run render_chart.go CHART RELEASE NAMESPACE [VALUES.yaml...]
//
// Stricter than Helm: a value that is not there is an error. Prints the objects; renders NOTES.txt without printing it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type values = map[string]interface{}

type files struct{ chart string }

// Get is empty where there is no such file, as Helm has it.
func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.chart, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Through JSON, so that numbers are float64, which is what templates of Helm see.
func load(path string) values {
	text, err := os.ReadFile(path)
	check(err)
	var any interface{}
	check(yaml.Unmarshal(text, &any))
	asJSON, err := json.Marshal(any)
	check(err)
	var out values
	check(json.Unmarshal(asJSON, &out))
	return out
}

func merge(into, from values) {
	for key, value := range from {
		inner, isMap := value.(values)
		old, wasMap := into[key].(values)
		if isMap && wasMap {
			merge(old, inner)
		} else {
			into[key] = value
		}
	}
}

func main() {
	chart, release, namespace := os.Args[1], os.Args[2], os.Args[3]
	all := load(filepath.Join(chart, "values.yaml"))
	for _, path := range os.Args[4:] {
		merge(all, load(path))
	}
	root := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	root.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		_, err = root.New(filepath.Base(path)).Parse(string(text))
		check(err)
	}
	data := values{
		"Values": all, "Files": files{chart}, "Chart": load(filepath.Join(chart, "Chart.yaml")),
		"Release": values{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		check(root.ExecuteTemplate(&out, name, data))
		if name != "NOTES.txt" && strings.TrimSpace(out.String()) != "" {
			fmt.Printf("---\n%s\n", out.String())
		}
	}
}
