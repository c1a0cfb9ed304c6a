package deploy_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

// settings returns the paths that an object of the values' schema accepts.
func settings(t *testing.T, schema map[string]any, prefix string) (paths []string) {
	t.Helper()
	definitions := at(read(t, "helm/tipcache/values.schema.json"), "definitions")
	resolve := func(v any) map[string]any {
		m, _ := v.(map[string]any)
		if ref, ok := m["$ref"].(string); ok {
			m, _ = at(definitions, strings.TrimPrefix(ref, "#/definitions/")).(map[string]any)
		}
		return m
	}
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 || schema["additionalProperties"] != false {
		t.Errorf("schema of %q accepts other properties, want additionalProperties false", prefix)
	}
	for name, property := range properties {
		m := resolve(property)
		if each, isMap := m["additionalProperties"].(map[string]any); isMap {
			paths = append(paths, prefix+name)
			paths = append(paths, settings(t, resolve(each), prefix+name+".*.")...)
		} else if m["type"] == "object" {
			paths = append(paths, settings(t, m, prefix+name+".")...)
		} else {
			paths = append(paths, prefix+name)
		}
	}
	slices.Sort(paths)
	return paths
}

func TestChartAcceptsExactlyTheExistingSettings(t *testing.T) {
	var want []string
	for _, k := range config.Keys() {
		want = append(want, k.Path)
		if field, ofClass := strings.CutPrefix(k.Path, "classes.live."); ofClass {
			want = append(want, "routes.*."+field)
		}
		if kind := reflect.TypeOf(k.Default).Kind(); kind == reflect.Map && k.Path != "routes" {
			t.Errorf("%s is a map that this test does not know", k.Path)
		}
	}
	slices.Sort(want)
	schema, _ := at(read(t, "helm/tipcache/values.schema.json"), "properties", "config").(map[string]any)
	expect.NoDiff(t, settings(t, schema, ""), want, "config in helm/tipcache/values.schema.json")
}
