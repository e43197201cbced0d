// SPDX-License-Identifier: Apache-2.0

// chart prints a file of a Helm chart as `helm template` renders it: Go's text/template with sprig's
// functions and Helm's own include, lookup, toYaml, fromYaml and fromYamlArray. The objects that lookup
// finds are those of the file CLUSTER.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run tools/chart.go [-cluster CLUSTER.yaml] \
//		CHART FILE NAMESPACE [VALUES.yaml]...
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func read(path string) map[string]interface{} {
	var out map[string]interface{}
	text, err := os.ReadFile(path)
	must(err)
	must(yaml.UnmarshalStrict(text, &out))
	return out
}

// lay puts the values of over on top of those of base.
func lay(base, over map[string]interface{}) {
	for key, value := range over {
		below, isMap := base[key].(map[string]interface{})
		above, areMaps := value.(map[string]interface{})
		if isMap && areMaps {
			lay(below, above)
		} else {
			base[key] = value
		}
	}
}

// files is Helm's .Files.
type files string

func (f files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(f), name))
	return string(text), err
}

type object = map[string]interface{}

// cluster has the objects of a file.
type cluster []object

func readCluster(path string) cluster {
	var out cluster
	text, err := os.ReadFile(path)
	must(err)
	for _, part := range strings.Split(string(text), "\n---\n") {
		var o object
		must(yaml.Unmarshal([]byte(part), &o))
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

// lookup is Helm's: an empty map if there is no such object.
func (c cluster) lookup(api, kind, namespace, name string) object {
	for _, o := range c {
		about, _ := o["metadata"].(object)
		if o["apiVersion"] == api && o["kind"] == kind && about["namespace"] == namespace && about["name"] == name {
			return o
		}
	}
	return object{}
}

func functions(all *template.Template, now cluster) template.FuncMap {
	return template.FuncMap{
		"lookup": now.lookup,
		"include": func(name string, data interface{}) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value interface{}) (string, error) {
			out, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(out), "\n"), err
		},
		"fromYaml": func(text string) (map[string]interface{}, error) {
			out := map[string]interface{}{}
			return out, yaml.Unmarshal([]byte(text), &out)
		},
		"fromYamlArray": func(text string) ([]interface{}, error) {
			out := []interface{}{}
			return out, yaml.Unmarshal([]byte(text), &out)
		},
	}
}

func main() {
	state := flag.String("cluster", os.DevNull, "file with the cluster's objects")
	flag.Parse()
	args := flag.Args()
	if len(args) < 3 {
		must(fmt.Errorf("usage: chart [-cluster CLUSTER.yaml] CHART FILE NAMESPACE [VALUES.yaml]..."))
	}
	chart, file := args[0], args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	for _, path := range args[3:] {
		lay(values, read(path))
	}
	about := read(filepath.Join(chart, "Chart.yaml"))
	all := template.New("").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	all.Funcs(functions(all, readCluster(*state)))
	parts, err := filepath.Glob(filepath.Join(chart, "templates", "*.tpl"))
	must(err)
	for _, path := range append(parts, filepath.Join(chart, file)) {
		text, err := os.ReadFile(path)
		must(err)
		_, err = all.New(path).Parse(string(text))
		must(err)
	}
	must(all.ExecuteTemplate(os.Stdout, filepath.Join(chart, file), map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Name": "sysom", "Namespace": args[2], "Service": "Helm"},
		"Files":   files(chart),
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"]},
	}))
}
