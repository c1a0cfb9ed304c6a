package config

import (
	"reflect"
	"slices"
	"strings"
)

// A Key is one thing that can be set.
type Key struct {
	Path    string // as in the file: chain.id
	Env     string // TIPCACHE_CHAIN_ID
	Flag    string // chain-id; empty: no flag
	Doc     string
	Default any
	List    bool // several values: repeat the flag, separate by commas in the variable
	Secret  bool // never printed; the variable with _FILE behind it names a file
	Reload  bool // can change while serving
}

// Keys lists all that can be set, in the order of the struct.
func Keys() []Key {
	var keys []Key
	eachKey("", reflect.ValueOf(Default()), func(path string, f reflect.StructField, v reflect.Value) {
		keys = append(keys, Key{
			Path:    path,
			Env:     envName(path),
			Flag:    f.Tag.Get("flag"),
			Doc:     f.Tag.Get("doc"),
			Default: plain(v),
			List:    f.Type.Kind() == reflect.Slice,
			Secret:  f.Tag.Get("secret") != "",
			Reload:  f.Tag.Get("reload") != "",
		})
	})
	return keys
}

// eachKey visits all that can be set in a configuration.
func eachKey(prefix string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		path := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			eachKey(path+".", v.Field(i), visit)
		} else {
			visit(path, f, v.Field(i))
		}
	}
}

// isLeaf reports whether a path in a file names a setting.
func isLeaf(path string) bool {
	if rest, ok := strings.CutPrefix(path, "routes."); ok {
		_, field, nested := strings.Cut(rest, ".")
		return nested && isLeaf("classes.live."+field)
	}
	return path != "routes" && slices.ContainsFunc(Keys(), func(k Key) bool { return k.Path == path })
}

// isSection reports whether settings lie below a path.
func isSection(path string) bool {
	if rest, ok := strings.CutPrefix(path, "routes."); ok {
		return !strings.Contains(rest, ".")
	}
	return path == "routes" || slices.ContainsFunc(Keys(), func(k Key) bool { return strings.HasPrefix(k.Path, path+".") })
}

// leavesBeside are the paths of all settings, those of the route that a path
// names included.
func leavesBeside(path string) []string {
	route, _, _ := strings.Cut(strings.TrimPrefix(path, "routes."), ".")
	var paths []string
	for _, k := range Keys() {
		paths = append(paths, k.Path)
		if field, ok := strings.CutPrefix(k.Path, "classes.live."); ok {
			paths = append(paths, "routes."+route+"."+field)
		}
	}
	return paths
}

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}
