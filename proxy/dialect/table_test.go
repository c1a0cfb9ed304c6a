package dialect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
)

func TestFirstRowThatMatchesServesThePath(t *testing.T) {
	r, err := blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(Options{Prefix: "test", Depth: 2, Manner: Strict}, r)
	for _, row := range []Row{
		{Name: "any_sizes", Pattern: "/{module}/v1/sizes"},
		{Name: "things", Pattern: "/things/v1/{id}"},
		{Name: "sizes", Pattern: "/things/v1/sizes"}, // hidden by both
		{Name: "any", Pattern: "/{module}/v1/{id}"},
		{Name: "parts", Pattern: "/things/v1/{id}/parts"},
		{Name: "short", Pattern: "/things"},
	} {
		if _, err := table.Mount(row, lookup, &blocks.Kind{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/things/v1/sizes": "any_sizes", "/things/v1/7": "things", "/others/v1/sizes": "any_sizes", "/others/v1/7": "any",
		"/things/v1/7/parts": "parts", "/things": "short", "/others": "", "/things/v2/7": "",
	} {
		route, ok := table.Route(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if route.Name != want || ok != (want != "") {
			t.Errorf("Route(%s) = %q, %t; want %q", path, route.Name, ok, want)
		}
	}
}

func TestRequestsWithBodyAreRefused(t *testing.T) {
	r, err := blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for body, ok := range map[string]bool{"": true, "x": false} {
		ep, err := NewTable(Options{Prefix: "test", NoBody: true, Manner: Strict}, r).Mount(Row{Name: "things", Pattern: "/things"}, lookup, &blocks.Kind{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ep.Parse(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", strings.NewReader(body))); (err == nil) != ok {
			t.Errorf("Parse with the body %q = %v, want success %t", body, err, ok)
		}
	}
}

func TestHeightIsReadForTheStateAlone(t *testing.T) {
	r, err := blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[blocks.Class]int64{blocks.Live: 7, blocks.Latest: 0, blocks.Block: 0} {
		ep, err := NewTable(Options{Prefix: "test"}, r).Mount(Row{Name: "things", Pattern: "/things", Class: class}, lookup, &blocks.Kind{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", nil)
		request.Header.Set("X-Block-Height", "7")
		if q, err := ep.Parse(request); err != nil || q.Pinned != want {
			t.Errorf("height of class %v = %+v, %v, want %d", class, q, err, want)
		}
	}
}
