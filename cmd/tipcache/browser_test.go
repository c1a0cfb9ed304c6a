package main

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// seen is what a page could see of one answer.
type seen struct {
	Failure string
	Status  int
	Height  int64
	ETag    string
	Body    map[string]any
}

func TestAPageOfAnotherOriginReadsBothInterfaces(t *testing.T) {
	chromium := os.Getenv("TIPCACHE_TEST_CHROMIUM")
	if chromium == "" {
		t.Skip("set TIPCACHE_TEST_CHROMIUM to the path of Chromium to run this test: .ci/browser installs it")
	}
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	page := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	defer page.Close()
	got := browse(t, chromium, page.URL+"/browser.html?"+url.Values{"base": {r.base}, "key": {r.key}}.Encode())

	first, unchanged, pinned := got["first"], got["unchanged"], got["pinned"]
	for name, status := range map[string]int{
		"first": 200, "revalidated": 200, "unchanged": 304, "pinned": 200, "refused": 400, "collections": 200, "keyless": 401,
	} {
		if got[name].Status != status {
			t.Errorf("%s: %+v, want status %d", name, got[name], status)
		}
	}
	if first.Height <= 0 || first.ETag == "" || first.Body["msg"] == nil {
		t.Errorf("the page cannot see %+v", first)
	}
	if pinned.Height != first.Height-1 {
		t.Errorf("pinned at %d, read at %d", first.Height-1, pinned.Height)
	}
	if unchanged.Height < first.Height || unchanged.ETag != first.ETag {
		t.Errorf("unchanged: %+v", unchanged)
	}
	if data, _ := got["collections"].Body["data"].([]any); len(data) != 3 {
		t.Errorf("collections: %+v", got["collections"])
	}
	// One was asked for by the page, one by the browser's own cache.
	metrics := r.get(r.admin + "/metrics").body
	if n := len(regexp.MustCompile(`tipcache_proxy_requests_total\{.*status="304".*\} 2\n`).FindAllString(metrics, -1)); n != 1 {
		t.Errorf("not two answers 304:\n%s", strings.Join(regexp.MustCompile(`tipcache_proxy_requests_total.*`).FindAllString(metrics, -1), "\n"))
	}
}

// browse opens the page and returns what it wrote, once all it does is done.
func browse(t *testing.T, chromium, page string) map[string]seen {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--timeout=30000", "--virtual-time-budget=10000", "--dump-dom", page)
	var log bytes.Buffer
	cmd.Stderr = &log
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, log.String())
	}
	text := regexp.MustCompile(`(?s)<pre id="result">(.*)</pre>`).FindSubmatch(dom)
	if text == nil {
		t.Fatalf("not the page:\n%s\n%s", dom, log.String())
	}
	got := map[string]seen{}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(text[1]))), &got); err != nil {
		t.Fatalf("%v in %q", err, text[1])
	}
	return got
}
