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
	List    bool     // several values: repeat the flag, separate by commas in the variable
	Secret  bool     // never printed; the variable with _FILE behind it names a file
	Reload  bool     // can change while serving
	OneOf   []string // the values that are allowed; nil: others, too
	Forms   []string // what values may begin with, for shells to complete
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
			OneOf:   listed(f.Tag.Get("oneof")),
			Forms:   listed(f.Tag.Get("forms")),
		})
	})
	return keys
}

// noKey is the key of fields that are no settings.
const noKey = "-"

// listed are the items of a tag that are not empty.
func listed(tag string) []string {
	return slices.DeleteFunc(strings.Split(tag, ", "), func(item string) bool { return item == "" })
}

// eachKey visits all that can be set in a configuration.
func eachKey(prefix string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		path := prefix + f.Tag.Get("yaml")
		if f.Tag.Get("yaml") == noKey {
			continue
		}
		if f.Type.Kind() == reflect.Struct {
			eachKey(path+".", v.Field(i), visit)
		} else {
			visit(path, f, v.Field(i))
		}
	}
}

// fieldAt is where a configuration holds the setting of a path.
func fieldAt(cfg *Config, path string) reflect.Value {
	v := reflect.ValueOf(cfg).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = member(v, name)
	}
	return v
}

// member is what a section, which is a struct or a map of them, has under a name in
// files: the zero Value for nothing. A map has what it is asked for.
func member(section reflect.Value, name string) reflect.Value {
	switch section.Kind() {
	case reflect.Struct:
		for i := range section.NumField() {
			if name != noKey && section.Type().Field(i).Tag.Get("yaml") == name {
				return section.Field(i)
			}
		}
	case reflect.Map:
		if section.IsNil() {
			section.Set(reflect.MakeMap(section.Type()))
		}
		key := reflect.ValueOf(name)
		if !section.MapIndex(key).IsValid() {
			section.SetMapIndex(key, reflect.New(section.Type().Elem().Elem()))
		}
		return section.MapIndex(key).Elem()
	}
	return reflect.Value{}
}

// texts are the values of the setting: the items of a list, without blank ones, or a
// single value.
func (k Key) texts(items []string, single string) []string {
	if !k.List {
		return []string{single}
	}
	return slices.DeleteFunc(slices.Clone(items), func(s string) bool { return strings.TrimSpace(s) == "" })
}

const envPrefix = "TIPCACHE_"

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}
