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
		{"two origins", []string{"https://app.example"}, []string{"https://app.example", "https://app.example"}, false},
	} {
		r := &http.Request{Host: "tip.example:8080", Header: http.Header{"Origin": tt.sent}}
		c := newCORS(tt.origins)
		expect.Equal(t, c.Connects(r), tt.want, "Connects for %s", tt.name)
	}
}
