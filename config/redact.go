package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Redacted returns the configuration as YAML without secrets: a secret that is set is ***, and only the
// host of a URL is left.
func (c Config) Redacted() ([]byte, error) {
	eachKey("", reflect.ValueOf(&c).Elem(), func(_ string, f reflect.StructField, v reflect.Value) {
		if f.Tag.Get("secret") == "" {
			return
		}
		if v.Kind() == reflect.String {
			v.SetString(redact(v.String()))
			return
		}
		var hidden []string
		for _, text := range v.Interface().([]string) { //nolint:forcetypeassert // other secrets are strings
			hidden = append(hidden, redact(text))
		}
		v.Set(reflect.ValueOf(hidden))
	})
	return yaml.Marshal(c)
}

func redact(secret string) string {
	scheme, _, isURL := strings.Cut(secret, "://")
	switch {
	case secret == "" || secret == "none" || strings.HasPrefix(secret, "sqlite:"):
		return secret
	case isURL:
		return scheme + "://" + Host(secret)
	default:
		return "***"
	}
}
