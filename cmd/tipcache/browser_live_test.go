package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// serveAt starts a replica in a process of its own, and returns its address.
func serveAt(t *testing.T, d *devnet.Devnet, listen string) (p *program, addr string) {
	t.Helper()
	p = startProgram(t, nil, "serve", "--listen", listen, "--admin", "127.0.0.1:0", "--node", d.NodeURL(), "--comet", d.CometURL(),
		"--store", "sqlite::memory:", "--collections-auth", "closed")
	return p, p.address("listen")
}

func TestLivePageShowsEachBlockAndReconnects(t *testing.T) {
	d := newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond})
	replica, addr := serveAt(t, d, porttest.Address(t)) // the address of the restarted replica, too
	page := openTab(t, "http://"+addr+"/docs/live")
	const shown = `document.querySelector('article')?.dataset.changes`
	page.until("changed by three blocks", shown+` >= 3`)
	expect.Contains(t, page.value(`document.querySelector('article code').textContent`), "/rewards", "first response")
	page.until("marked", `document.querySelectorAll('article mark').length > 0`)
	if got := page.consoleErrors(); len(got) > 0 {
		t.Errorf("browser console has %+v, want no errors", got)
	}
	replica.kill()
	page.until("showing the lost connection", `document.querySelector('#state').textContent.includes('lost')`)
	serveAt(t, d, addr)
	before := page.value(shown)
	page.until("changed again", shown+` > `+before+` + 2`)
	page.until("connected again", `document.querySelector('#state').textContent.includes('newest block')`)
	for _, c := range page.consoleErrors() {
		if c.Source != "network" || !strings.Contains(c.URL, addr+"/live?") {
			t.Errorf("browser console has %+v, want no errors", c)
		}
	}
}

func TestLivePageShowsRefusalAndStreamsOtherPaths(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	page := openTab(t, r.base+"/docs/live?path=/staking/validators/nope&path=/staking/pool&path=/nowhere")
	const refused = `[...document.querySelectorAll('article .failure')].map(el => el.textContent).join()`
	page.until("showing why two paths are refused", refused+`.match(/validator_addr is "nope".*does not know .nowhere/) !== null`)
	page.until("showing the third path", `document.querySelectorAll('article')[1].querySelector('.block').textContent.startsWith('block ')`)
	page.until("connected", `document.querySelector('#state').textContent.includes('newest block')`)
}

func TestLivePageFollowsDialect(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond, Dialect: devnet.Cosmos}), nil)
	page := openTab(t, r.base+"/docs/live")
	page.until("changed by a block", `document.querySelector('article')?.dataset.changes >= 1`)
	expect.Contains(t, page.value(`document.querySelector('article code').textContent`), "/cosmos/distribution/v1beta1/delegators/", "first response")
}

// A breakableProxy forwards requests to a server. While it is broken, it responds with 502 as a load balancer does.
type breakableProxy struct {
	*httptest.Server
	broken  atomic.Bool
	refused atomic.Int64
	resumed atomic.Int64 // requests with the id of an event
}

func startBreakableProxy(t *testing.T, base string) *breakableProxy {
	t.Helper()
	f := &breakableProxy{}
	f.Server = relay(t, base, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if f.broken.Load() {
			f.refused.Add(1)
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.URL.Query().Has("stream.last_event_id") {
			f.resumed.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	t.Cleanup(f.CloseClientConnections)
	return f
}

func TestTypeScriptPackageWorksInBrowser(t *testing.T) {
	built := os.Getenv("TIPCACHE_TEST_PACKAGE")
	if built == "" {
		t.Skip("set TIPCACHE_TEST_PACKAGE to the package's built directory to run this test: .ci/clients builds it")
	}
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	proxy := startBreakableProxy(t, r.base)
	files := http.NewServeMux()
	files.Handle("/package/", http.StripPrefix("/package/", http.FileServer(http.Dir(built))))
	files.Handle("/", http.FileServer(http.Dir("testdata")))
	site := httptest.NewServer(files)
	t.Cleanup(site.Close)
	t.Cleanup(site.CloseClientConnections)

	page := openTab(t, site.URL+"/package.html?"+url.Values{"base": {proxy.URL}}.Encode())
	page.until("after its walk and its wait", `seen.walk !== undefined && seen.waited === true`)
	expect.NoDiff(t, page.value(`seen.walk`), `{"items":71,"different":71,"heights":1}`, "walk")
	page.until("showing streamed responses", `seen.live.length >= 3`)
	page.until("showing three complete blocks", `seen.frames.length >= 3 && seen.frames.every((f, i, all) => f.complete && (i === 0 || f.height > all[i-1].height))`)
	page.until("able to send requests while it follows nine responses", `seen.many === true`)
	proxy.broken.Store(true)
	proxy.CloseClientConnections()
	page.eventually("a refused request", func() bool { return proxy.refused.Load() > 0 })
	page.until("showing the failure and the stale response", `seen.failures.length > 0 && seen.failures[0].code === 0 && seen.failures[0].old >= seen.live.at(-1).height`)
	proxy.broken.Store(false)
	before := page.value(`seen.live.length`)
	page.until("showing streamed responses again", `seen.live.length >= `+before+` + 3`)
	if proxy.resumed.Load() == 0 {
		t.Error("reconnect lacks Last-Event-ID")
	}
	if got := page.value(`seen.live.every((a, i, all) => i === 0 || a.height > all[i-1].height || a.id === all[i-1].id)`); got != "true" {
		t.Errorf("streamed responses = %s, want increasing heights or repeated ids", page.value(`seen.live`))
	}
	for _, c := range page.consoleErrors() {
		if c.Source != "network" || !strings.HasPrefix(c.URL, proxy.URL) {
			t.Errorf("browser console has %+v, want no errors", c)
		}
	}
}

// A violation is a rule of axe-core that a page violates, with the elements.
type violation struct {
	ID, Help string
	Nodes    []struct {
		Target []string
		HTML   string
	}
}

// String names the rule and its first elements.
func (f violation) String() string {
	text := fmt.Sprintf("%s (%s), %d times:", f.ID, f.Help, len(f.Nodes))
	for _, n := range f.Nodes[:min(4, len(f.Nodes))] {
		text += fmt.Sprintf("\n\t%s  %.160s", strings.Join(n.Target, " "), n.HTML)
	}
	return text
}

// axe runs axe-core in the page and returns the violations.
func (b *tab) axe(script string) (found []violation) {
	b.t.Helper()
	b.value(script)
	b.value(`window.found = undefined; axe.run({resultTypes: ['violations']}).then(
		r => { window.found = JSON.stringify({violations: r.violations, passes: r.passes.length}) }, e => { window.found = JSON.stringify({failed: String(e)}) })`)
	b.until("examined by axe-core", `window.found !== undefined`)
	var text string
	var result struct {
		Violations []violation
		Passes     int
		Failed     string
	}
	expect.NoError(b.t, json.Unmarshal([]byte(b.value(`window.found`)), &text))
	if err := json.Unmarshal([]byte(text), &result); err != nil || result.Failed != "" || result.Passes == 0 {
		b.t.Fatalf("axe-core did not run: %v, %.200s", err, text)
	}
	return result.Violations
}

// show sets the color scheme and the width of the window.
func (b *tab) show(scheme string, width int) {
	b.t.Helper()
	b.command("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
	b.command("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false})
}

// expectAccessible fails the test for each violation, and for a page that is wider than a phone.
func (b *tab) expectAccessible(t *testing.T, what, script string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.show(scheme, 1280)
		for _, f := range b.axe(script) {
			t.Errorf("%s, %s: %s", what, scheme, f)
		}
	}
	b.show("light", 390)
	expect.Equal(t, b.value(`document.documentElement.scrollWidth - document.documentElement.clientWidth`), "0", "%s: pixels too wide on a phone", what)
}

func TestPagesHaveNoAxeViolations(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("TIPCACHE_TEST_AXE"))
	if err != nil {
		t.Skip("set TIPCACHE_TEST_AXE to the path of axe.min.js to run this test: .ci/browser installs it")
	}
	const token = "a token that is long"
	script, d := string(text), newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond})
	r := startRunning(t, d, func(c *config.Config) {
		c.AdminToken, c.RPC.Listen, c.GRPC.Listen = token, "127.0.0.1:0", "127.0.0.1:0"
	})

	manual := openTab(t, r.base+"/docs")
	manual.until("showing the request forms", `document.querySelector('form.try:not([hidden])') !== null`)
	manual.value(`document.getElementById('unfold').click(); document.querySelector('form.try').requestSubmit()`)
	manual.expectAccessible(t, "the manual", script)

	live := openTab(t, r.base+"/docs/live?path=/staking/validators&path=/staking/pool")
	live.until("changed by a block", `document.querySelectorAll('article mark').length > 0`)
	live.expectAccessible(t, "the live page", script)

	status := openTab(t, r.admin+"/")
	status.until("asking for the token", `!document.getElementById('ask').hidden`)
	status.expectAccessible(t, "the status page without the token", script)
	status.value(`document.getElementById('token').value = '` + token + `'; document.getElementById('ask').requestSubmit()`)
	status.until("drawn", `Number(document.documentElement.dataset.drawn) > 2`)
	status.expectAccessible(t, "the status page", script)
	expect.NoError(t, d.SetFaults(nodeDown))
	status.until("in trouble", `!document.getElementById('problems').hidden`)
	status.expectAccessible(t, "the status page of a server in trouble", script)
}
