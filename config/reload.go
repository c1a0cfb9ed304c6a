package config

import "reflect"

// Reload takes over from next the settings that can change while serving.
// changed names them; restart names settings that differ, too, and need one.
func (c *Config) Reload(next Config) (changed, restart []string) {
	wanted := map[string]reflect.Value{}
	eachKey("", reflect.ValueOf(next), func(path string, _ reflect.StructField, v reflect.Value) { wanted[path] = v })
	eachKey("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v reflect.Value) {
		switch {
		case reflect.DeepEqual(v.Interface(), wanted[path].Interface()):
		case f.Tag.Get("reload") != "":
			v.Set(wanted[path])
			changed = append(changed, path)
		default:
			restart = append(restart, path)
		}
	})
	return changed, restart
}
