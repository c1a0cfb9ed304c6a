package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Redacted returns the configuration as YAML without secrets: a secret that is set is ***, only the scheme and the host of
// a URL are left, also the name of a database, and only the name and the rate of an API key.
func (c Config) Redacted() ([]byte, error) {
	eachKey("", reflect.ValueOf(&c).Elem(), func(_ string, f reflect.StructField, v reflect.Value) {
		hide := redact
		switch f.Tag.Get("secret") {
		case "":
			return
		case "key":
			hide = redactKey
		}
		if v.Kind() == reflect.String {
			v.SetString(hide(v.String()))
			return
		}
		var hidden []string
		for _, text := range v.Interface().([]string) { //nolint:forcetypeassert // other secrets are strings
			hidden = append(hidden, hide(text))
		}
		v.Set(reflect.ValueOf(hidden))
	})
	return yaml.Marshal(c)
}

func redact(secret string) string {
	scheme, rest, isURL := strings.Cut(secret, "://")
	switch {
	case secret == "" || secret == "none" || strings.HasPrefix(secret, "sqlite:"):
		return secret
	case !isURL:
		return "***"
	}
	credentials := ""
	if authority, _, _ := strings.Cut(rest, "/"); strings.Contains(authority, "@") {
		credentials = "***@"
	}
	return scheme + "://" + credentials + Host(secret) + database(secret)
}

// database returns the path of a URL of PostgreSQL or Redis if it is no more than the name of a database.
func database(secret string) string {
	u, err := url.Parse(secret)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql", "redis", "rediss"}, u.Scheme) || strings.ContainsAny(strings.TrimPrefix(u.Path, "/"), "/:@") {
		return ""
	}
	return u.EscapedPath()
}

// redactKey replaces the hash in NAME:SHA256_HEX:RATE.
func redactKey(line string) string {
	fields := strings.Split(line, ":")
	if len(fields) < 2 {
		return "***"
	}
	fields[1] = "***"
	return strings.Join(fields, ":")
}
