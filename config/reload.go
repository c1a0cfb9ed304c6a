package config

import "reflect"

// Reload copies the settings of next that may change while serving, and returns their paths. It also
// returns the paths of settings that differ but need a restart.
func (c *Config) Reload(next Config) (changed, restart []string) {
	changed, restart = []string{}, []string{} // not null in the log
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
