package web

import (
	"net/http"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPagesThatMayReadResponsesMayOpenWebSockets(t *testing.T) {
	for _, tt := range []struct {
		name    string
		origins []string
		sent    []string
		want    bool
	}{
		{"a client other than a browser", []string{"none"}, nil, true},
		{"any page where all are allowed", []string{"*"}, []string{"https://evil.example"}, true},
		{"a page of an allowed origin", []string{"https://App.example"}, []string{"https://app.example"}, true},
		{"a page of another origin", []string{"https://app.example"}, []string{"https://evil.example"}, false},
		{"a page of the requested host", []string{"none"}, []string{"http://Tip.example:8080"}, true},
		{"a page of another port", []string{"none"}, []string{"http://tip.example:8081"}, false},
		{"a page without an origin", []string{"https://app.example"}, []string{"null"}, false},
		{"a page of a host below the domain", []string{"https://*.app.example"}, []string{"https://preview-1.app.example"}, true},
		{"a page of the domain itself", []string{"https://*.app.example"}, []string{"https://app.example"}, false},
		{"a page two labels below the domain", []string{"https://*.app.example"}, []string{"https://a.b.app.example"}, false},
		{"a page without a label", []string{"https://*.app.example"}, []string{"https://.app.example"}, false},
		{"a page without TLS", []string{"https://*.app.example"}, []string{"http://a.app.example"}, false},
		{"a page of another port below the domain", []string{"https://*.app.example"}, []string{"https://a.app.example:8443"}, false},
		{"a page of the port below the domain", []string{"https://*.app.example:8443"}, []string{"https://a.app.example:8443"}, true},
		{"a page of a domain with the same end", []string{"https://*.app.example"}, []string{"https://a-app.example"}, false},
		{"an origin that no browser sends", []string{"https://*.app.example"}, []string{"https://evil.example/x.app.example"}, false},
		{"two origins", []string{"https://app.example"}, []string{"https://app.example", "https://app.example"}, false},
	} {
		r := &http.Request{Host: "tip.example:8080", Header: http.Header{"Origin": tt.sent}}
		c := newCORS(tt.origins)
		expect.Equal(t, c.Connects(r), tt.want, "Connects for %s", tt.name)
	}
}
