package config_test

import (
	"testing"

	"github.com/tipcache/tipcache/config"
)

func TestOriginsHaveFormThatBrowsersSend(t *testing.T) {
	tests := []struct {
		name, list, problem string
	}{
		{"any", "*", ""},
		{"nobody", "none", ""},
		{"one", "https://app.example", ""},
		{"several, with ports and addresses", "http://localhost:3000,https://app.example:8443,http://[::1]:8080", ""},
		{"an extension and an app", "chrome-extension://abcdefghijklmnop,capacitor://localhost", ""},
		{"a default port", "https://app.example:443", "http.cors_origins[0]: "},
		{"a default port of an address", "http://[::1]:80", "http.cors_origins[0]: "},
		{"an empty port", "https://app.example:", "http.cors_origins[0]: "},
		{"upper case", "https://App.example", "http.cors_origins[0]: "},
		{"an empty list", "", "http.cors_origins: at least one is needed"},
		{"any and one", "*,https://app.example", "http.cors_origins: * cannot be combined with other origins"},
		{"nobody and one", "https://app.example,none", "http.cors_origins: none cannot be combined with other origins"},
		{"a path", "https://app.example/", `http.cors_origins[0]: "https://app.example/" is not an origin`},
		{"a query", "https://app.example?", "http.cors_origins[0]: "},
		{"a fragment", "https://app.example#", "http.cors_origins[0]: "},
		{"a user", "https://me@app.example", "http.cors_origins[0]: "},
		{"no scheme", "https://app.example,app.example", `http.cors_origins[1]: "app.example" is not an origin`},
		{"another scheme", "ftp://app.example", "http.cors_origins[0]: "},
		{"the hosts below a domain", "https://*.app.example", ""},
		{"the hosts below a domain, with a port", "https://app.example,https://*.app.example:8443", ""},
		{"a star in a label", "https://preview-*.app.example", "http.cors_origins[0]: "},
		{"two stars", "https://*.*.app.example", "http.cors_origins[0]: "},
		{"a star and a default port", "https://*.app.example:443", "http.cors_origins[0]: "},
		{"a star without a domain", "https://*", "http.cors_origins[0]: "},
		{"a star and a dot", "https://*.", "http.cors_origins[0]: "},
		{"a star before two dots", "https://*..example", "http.cors_origins[0]: "},
		{"a star before an address", "https://*.127.0.0.1", "http.cors_origins[0]: "},
		{"a star without TLS", "http://*.app.example", "http.cors_origins[0]: "},
		{"a star in upper case", "https://*.App.example", "http.cors_origins[0]: "},
		{"a sandbox", "null", "http.cors_origins[0]: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_HTTP_CORS_ORIGINS=" + tt.list}})
			wantError(t, err, tt.problem)
		})
	}
}
