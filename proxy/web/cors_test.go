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
		may     bool
	}{
		{"no browser", []string{"none"}, nil, true},
		{"any page", []string{"*"}, []string{"https://evil.example"}, true},
		{"a page that is allowed", []string{"https://App.example"}, []string{"https://app.example"}, true},
		{"another page", []string{"https://app.example"}, []string{"https://evil.example"}, false},
		{"a page of our own host", []string{"none"}, []string{"http://Tip.example:8080"}, true},
		{"a page of another port", []string{"none"}, []string{"http://tip.example:8081"}, false},
		{"a page without an origin", []string{"https://app.example"}, []string{"null"}, false},
		{"two origins", []string{"https://app.example"}, []string{"https://app.example", "https://app.example"}, false},
	} {
		r := &http.Request{Host: "tip.example:8080", Header: http.Header{"Origin": tt.sent}}
		c := newCORS(tt.origins, nil)
		expect.Equal(t, c.Connects(r), tt.may, "%s: may open a socket", tt.name)
	}
}
