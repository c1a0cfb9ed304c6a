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
	"strconv"
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
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	page := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	defer page.Close()
	got := browse(t, page.URL+"/browser.html?"+url.Values{"base": {r.base}, "key": {r.key}}.Encode())

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
func browse(t *testing.T, page string) map[string]seen {
	t.Helper()
	dom, log := opened(t, page)
	text := regexp.MustCompile(`(?s)<pre id="result">(.*)</pre>`).FindStringSubmatch(dom)
	if text == nil {
		t.Fatalf("not the page:\n%s\n%s", dom, log)
	}
	got := map[string]seen{}
	if err := json.Unmarshal([]byte(html.UnescapeString(text[1])), &got); err != nil {
		t.Fatalf("%v in %q", err, text[1])
	}
	return got
}

var chromiumFlags = []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync"}

// opened is a page after ten seconds of its own time, and what the browser logged.
func opened(t *testing.T, page string) (dom, log string) {
	t.Helper()
	chromium := os.Getenv("TIPCACHE_TEST_CHROMIUM")
	if chromium == "" {
		t.Skip("set TIPCACHE_TEST_CHROMIUM to the path of Chromium to run this test: .ci/browser installs it")
	}
	cmd := exec.CommandContext(t.Context(), chromium, append(chromiumFlags, "--enable-logging=stderr",
		"--user-data-dir="+t.TempDir(), "--timeout=30000", "--virtual-time-budget=10000", "--dump-dom", page)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, said.String())
	}
	return string(text), said.String()
}

// shown is the figure that an element of the status page shows, unrounded.
func shown(t *testing.T, dom, id string) float64 {
	t.Helper()
	element := regexp.MustCompile(`<[^>]* id="` + id + `"[^>]*>`).FindString(dom)
	value := regexp.MustCompile(`data-value="([^"]*)"`).FindStringSubmatch(element)
	if value == nil {
		t.Fatalf("nothing is shown in %s: %q", id, element)
	}
	n, err := strconv.ParseFloat(value[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheStatusPageDrawsWhatTheMetricsTell(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: time.Second}), nil)
	for range 20 {
		r.get(r.base + "/staking/params")
		r.get(r.base + "/staking/pool")
	}
	time.Sleep(6 * time.Second) // in which three samples count them
	before := metric(t, r, "tipcache_node_tip_height")
	dom, log := opened(t, r.admin+"/")
	after := metric(t, r, "tipcache_node_tip_height")
	if tip := shown(t, dom, "tip"); tip < before-2 || tip > after {
		t.Errorf("the page shows block %v, the metrics %v before and %v after", tip, before, after)
	}
	if got, want := shown(t, dom, "answers"), metric(t, r, "tipcache_proxy_requests_total"); got != want {
		t.Errorf("the page has counted %v answers, the metrics %v", got, want)
	}
	for _, want := range []string{`data-drawn="`, r.devnet.ChainID(), `title="staking_params"`, "<path", ">ready<"} {
		if !strings.Contains(dom, want) {
			t.Errorf("%s is missing on the page", want)
		}
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the browser complains: %s", line)
		}
	}
}

func TestTheManualRunsInABrowser(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	dom, log := opened(t, r.base+"/#validator")
	if !strings.Contains(dom, `<p class="find">`) || !strings.Contains(dom, `<form class="try">`) {
		t.Error("its script did not run: nothing to search or to try")
	}
	if fold := regexp.MustCompile(`(?s)<article id="validator".*?<details[^>]*>`).FindString(dom); !strings.HasSuffix(fold, "open=\"\">") {
		t.Errorf("the operation that the address names is folded: %q", fold)
	}
	if strings.Contains(log, "CONSOLE") {
		t.Errorf("the browser complains: %s", log)
	}
}

// metric adds up what the service's metrics have under a name.
func metric(t *testing.T, r *running, name string) (sum float64) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(r.get(r.admin+"/metrics").body, -1)
	for _, line := range lines {
		n, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
