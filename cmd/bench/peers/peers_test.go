package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestScriptVariesBodiesWithSameMeaning(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip("wrk is not installed")
	}
	const compactBody = `{"orderBy":"assetCount","pagination":{"limit":20}}`
	c := hitCase{body: "{" + blanks + compactBody[1:]}
	script := c.script(t.TempDir(), 1)
	var mu sync.Mutex
	seen, all := map[string]int{}, 0
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if all++; all <= 10_000 { // the script has several times as many bodies
			seen[string(body)]++
		}
	}))
	defer s.Close()
	expect.NoError(t, rig.Eventually(t.Context(), func(ctx context.Context) error {
		_, err := clients.Wrk(ctx, clients.Load{URL: s.URL, Connections: 1, Length: time.Second, Script: script})
		return err
	}))
	mu.Lock()
	defer mu.Unlock()
	repeated := 0
	for text, times := range seen {
		repeated += times - 1
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(text)); err != nil || compact.String() != compactBody || len(text) != len(c.body) {
			t.Fatalf("body = %q, %v; want the same request as %s in another form", text, err, c.body)
		}
	}
	if repeated > len(seen)/10 {
		t.Errorf("repeated bodies = %d of %d, want at most a tenth", repeated, len(seen))
	}
}

func TestCrowdSendsHeadersOfManyBrowsers(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip("wrk is not installed")
	}
	c := hitCase{crowd: &crowd{documents: []string{"/a", "/b"}, pipeline: 3, ingress: true}}
	script := c.script(t.TempDir(), 2)
	var mu sync.Mutex
	paths, agents, addresses := map[string]int{}, map[string]int{}, map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths[r.URL.Path]++
		agents[r.UserAgent()+r.Header.Get("Accept-Language")]++
		addresses[r.Header.Get("X-Forwarded-For")]++
	}))
	defer s.Close()
	expect.Value(clients.Wrk(t.Context(), clients.Load{URL: s.URL, Connections: 2, Length: time.Second, Script: script}))(t)
	mu.Lock()
	defer mu.Unlock()
	if len(paths) != 2 || len(agents) < 3 || len(addresses) < 3*len(agents) {
		t.Errorf("paths = %d, browsers = %d, addresses = %d; want 2, at least 3, and at least 3 per browser", len(paths), len(agents), len(addresses))
	}
}
