package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	silence := func(k upstream.Kind, retry time.Duration) error {
		return fmt.Errorf("secret: %w", &upstream.Error{Kind: k, Msg: "the collection store did not answer", Err: errors.New("dial tcp 10.1.2.3:5432"), RetryAfter: retry})
	}
	s := startList(t, listing.Options{})
	for name, tc := range map[string]struct {
		method, path string
		body         string
		headers      []string
		store        error
		status       int
		title        string
		detail       string
		errors       string            // default: none
		has          map[string]string // response headers
	}{
		"no body": {
			status: 400, title: "Bad Request", detail: "request body is required",
		},
		"a body of spaces": {
			body: " \n", status: 400, title: "Bad Request", detail: "request body is required",
		},
		"a broken body": {
			body: `{`, status: 400, title: "Bad Request", detail: "request body is malformed",
			errors: `[{"message":"unexpected end of JSON input","location":"body","value":null}]`,
		},
		"a missing key": {
			body: `{}`, headers: []string{"X-Api-Key", ""},
			status: 401, title: "Unauthorized", detail: "the X-Api-Key header is required",
			has: map[string]string{"Www-Authenticate": `ApiKey header="X-Api-Key"`},
		},
		"a wrong key, whatever the body": {
			body: `{`, headers: []string{"X-Api-Key", "guess", "Content-Type", "text/plain"},
			status: 401, title: "Unauthorized", detail: "the X-Api-Key is not valid",
		},
		"another path": {
			path: "/api/v4/assets", status: 404, title: "Not Found", detail: "no such path: /api/v4/assets",
		},
		"another method": {
			method: http.MethodGet, status: 405, title: "Method Not Allowed", detail: "the method GET is not served here",
			has: map[string]string{"Allow": "POST, QUERY"},
		},
		"a body over 1 MiB": {
			body: `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, status: 413, title: "Request Entity Too Large",
			detail: "request body is too large limit=1048576 bytes",
		},
		"a body of another type": {
			body: `<x/>`, headers: []string{"Content-Type", "application/xml"},
			status: 415, title: "Unsupported Media Type", detail: "the request body must be application/json",
		},
		"a violation": {
			body: `{"orderBy":"name"}`, status: 422, title: "Unprocessable Entity", detail: "validation failed",
			errors: `[{"message":"expected value to be one of \"updatedAt, assetCount, licensesCount\"","location":"body.orderBy","value":"name"}]`,
		},
		"a store that is in trouble": {
			body: `{}`, store: errors.New("pq: password authentication failed for user secret"),
			status: 500, title: "Internal Server Error", detail: "internal error",
		},
		"a store that cannot be reached": {
			body: `{}`, store: silence(upstream.Unreachable, 0), status: 502, title: "Bad Gateway", detail: "the collection store did not answer",
		},
		"a store whose answer cannot be read": {
			body: `{}`, store: silence(upstream.BadAnswer, 0), status: 502, title: "Bad Gateway", detail: "the collection store did not answer",
		},
		"a store that is to be spared": {
			body: `{}`, store: silence(upstream.Overloaded, 1500*time.Millisecond), status: 503, title: "Service Unavailable",
			detail: "the collection store did not answer", has: map[string]string{"Retry-After": "2"},
		},
		"a store that is late": {
			body: `{}`, store: silence(upstream.Timeout, 0), status: 504, title: "Gateway Timeout", detail: "the collection store did not answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.store.fail(tc.store)
			method, path := tc.method, tc.path
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = listPath
			}
			res, body := s.send(t, method, path, tc.body, tc.headers...)
			if res.StatusCode != tc.status {
				t.Errorf("status %d, want %d", res.StatusCode, tc.status)
			}
			found := tc.errors
			if found == "" {
				found = "[]"
			}
			same(t, fmt.Sprintf(`{"$schema":"https://host/api/v4/Problem.json","type":"about:blank","title":%q,"status":%d,"detail":%q,"instance":%q,"errors":%s}`,
				tc.title, tc.status, tc.detail, path+"#"+requestID, found), body)
			wantHeader(t, res, "Content-Type", "application/problem+json")
			wantHeader(t, res, "Cache-Control", "no-store")
			wantHeader(t, res, "Link", `</api/v4/Problem.json>; rel="describedBy"`)
			for name, want := range tc.has {
				wantHeader(t, res, name, want)
			}
		})
	}
}

func wantHeader(t *testing.T, res *http.Response, name, want string) {
	t.Helper()
	if got := res.Header.Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestContentTypes(t *testing.T) {
	s := startList(t, listing.Options{})
	for typ, want := range map[string]int{
		"":                                      http.StatusOK,
		"application/json":                      http.StatusOK,
		"Application/JSON; charset=utf-8":       http.StatusOK,
		"application/merge-patch+json":          http.StatusOK,
		"text/json":                             http.StatusUnsupportedMediaType,
		"application/jsonx":                     http.StatusUnsupportedMediaType,
		"multipart/form-data":                   http.StatusUnsupportedMediaType,
		";":                                     http.StatusOK,
		"application/json; charset":             http.StatusOK,
		"application/json;charset=a; charset=b": http.StatusOK,
		"; charset=utf-8":                       http.StatusOK,
		"text/plain; a=b+json":                  http.StatusUnsupportedMediaType,
	} {
		if res, body := s.post(t, `{}`, "Content-Type", typ); res.StatusCode != want {
			t.Errorf("%q: status %d, want %d: %s", typ, res.StatusCode, want, body)
		}
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	s := startList(t, listing.Options{})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		res, _ := s.send(t, method, "/api/v4//collections/", "")
		if res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, res.StatusCode)
		}
		wantHeader(t, res, "Allow", "POST, QUERY")
		wantHeader(t, res, "Content-Type", "application/problem+json")
	}
}

func TestPanicsBecomeProblems(t *testing.T) {
	s := startList(t, listing.Options{})
	s.store.will(func(context.Context, collections.Query) (collections.Page, error) { panic("secret") })
	res, body := s.post(t, `{}`)
	if res.StatusCode != http.StatusInternalServerError || strings.Contains(body, "secret") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}

func TestSchemaURLIsWhereTheClientFoundUs(t *testing.T) {
	for name, tc := range map[string]struct{ public, scheme, host, want string }{
		"the configured address":   {"https://api.example.org/", "http", "h.example", "https://api.example.org"},
		"the request's host":       {"", "http", "h.example:8080", "http://h.example:8080"},
		"an encrypted one":         {"", "https", "h.example", "https://h.example"},
		"an IPv6 address":          {"", "http", "[::1]:8080", "http://[::1]:8080"},
		"nowhere if it is no host": {"", "http", `x"><script>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newListProxy(t, listing.Options{NoAuth: true}, knownAs(tc.public))
			want := tc.want + "/api/v4/CollectionPage.json"
			if got := schemaOf(t, p, tc.scheme, tc.host); got != want {
				t.Errorf("$schema %q, want %q", got, want)
			}
		})
	}
}

func TestSlowBodiesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
	slow, end := io.Pipe()
	defer end.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, slow)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", testKey)
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", res.StatusCode)
	}
	wantHeader(t, res, "Content-Type", "application/problem+json")
}
