package config

import (
	"reflect"
	"strings"
)

// A Key describes a setting.
type Key struct {
	Path    string // in the file, such as chain.id
	Env     string // TIPCACHE_CHAIN_ID
	Flag    string // such as chain-id; "" means no flag
	Doc     string
	Default any
	List    bool // several values: repeated flags, separated by commas in the variable
	Secret  bool // never printed; the variable with the suffix _FILE names a file
	Reload  bool // can change while serving
}

// Keys returns all settings in the order of the struct.
func Keys() []Key {
	var keys []Key
	eachKey("", reflect.ValueOf(Default()), func(path string, f reflect.StructField, v reflect.Value) {
		keys = append(keys, Key{
			Path:    path,
			Env:     envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_")),
			Flag:    f.Tag.Get("flag"),
			Doc:     f.Tag.Get("doc"),
			Default: v.Interface(),
			List:    f.Type.Kind() == reflect.Slice,
			Secret:  f.Tag.Get("secret") != "",
			Reload:  f.Tag.Get("reload") != "",
		})
	})
	return keys
}

// noKey is the key of fields that are not settings. inline is the tag of the settings of a package, which belong to the section
// that they are in.
const (
	noKey  = "-"
	inline = ",inline"
)

// eachKey visits all settings of a configuration.
func eachKey(prefix string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch name := f.Tag.Get("yaml"); {
		case name == noKey:
		case name == inline:
			eachKey(prefix, v.Field(i), visit)
		case f.Type.Kind() == reflect.Struct:
			eachKey(prefix+name+".", v.Field(i), visit)
		default:
			visit(prefix+name, f, v.Field(i))
		}
	}
}

// fieldAt returns the field of the setting with the path.
func fieldAt(cfg *Config, path string) reflect.Value {
	v := reflect.ValueOf(cfg).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = member(v, name)
	}
	return v
}

// member returns the field of a section (a struct or a map of structs) with the name in files, or the
// zero Value. A map gets an entry if it has none.
func member(section reflect.Value, name string) reflect.Value {
	switch section.Kind() {
	case reflect.Struct:
		for i := range section.NumField() {
			switch section.Type().Field(i).Tag.Get("yaml") {
			case noKey:
			case name:
				return section.Field(i)
			case inline:
				if v := member(section.Field(i), name); v.IsValid() {
					return v
				}
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

// texts returns the values of the setting: the items of a list that are not blank, without spaces around them, or the single
// value.
func (k Key) texts(items []string, single string) (texts []string) {
	if !k.List {
		return []string{single}
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			texts = append(texts, item)
		}
	}
	return texts
}

const envPrefix = "TIPCACHE_"
