package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A pageResponse has the parts of a response that a page can read.
type pageResponse struct {
	Failure string
	Status  int
	Height  int64
	ETag    string
	Body    map[string]any
}

func TestPageOfAllowedOriginReadsAllAPIs(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	cosmos := startRunning(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1}), nil)
	page := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	defer page.Close()
	got := browse(t, page.URL+"/browser.html?"+url.Values{"base": {r.base}, "key": {r.key}, "cosmos": {cosmos.base}}.Encode())

	first, unchanged, pinned := got["first"], got["unchanged"], got["pinned"]
	for name, status := range map[string]int{
		"first": 200, "revalidated": 200, "unchanged": 304, "pinned": 200, "refused": 400, "collections": 200, "query": 200, "keyless": 401, "poll": 200, "polled": 200, "eventsource": 200, "fetched": 200,
	} {
		if got[name].Status != status {
			t.Errorf("%s = %+v, want status %d", name, got[name], status)
		}
	}
	if first.Height <= 0 || first.ETag == "" || first.Body["msg"] == nil {
		t.Errorf("first = %+v, want height, ETag and msg", first)
	}
	expect.Equal(t, pinned.Height, first.Height-1, "height of pinned")
	if unchanged.Height < first.Height || unchanged.ETag != first.ETag {
		t.Errorf("unchanged = %+v, want the ETag of %+v at its height or later", unchanged, first)
	}
	if got["polled"].Height <= got["poll"].Height {
		t.Errorf("height of polled = %d, want it above %d", got["polled"].Height, got["poll"].Height)
	}
	for _, name := range []string{"collections", "query"} {
		if data, _ := got[name].Body["data"].([]any); len(data) != 3 {
			t.Errorf("%s = %+v, want 3 items", name, got[name])
		}
	}
	for _, name := range []string{"eventsource", "fetched"} {
		if session, _ := got[name].Body["session"].(string); got[name].Height < first.Height || !strings.HasPrefix(session, strconv.FormatInt(got[name].Height, 10)) {
			t.Errorf("%s = %+v, want a session at block %d or later", name, got[name], first.Height)
		}
	}
	for _, typ := range []string{"application/grpc-web+proto", "application/grpc-web-text+proto"} {
		if called := got[typ]; called.Height != 1000 || called.Body["grpc"] != "0" || called.Body["message"] == nil {
			t.Errorf("call with %s = %+v, want a message at block 1000", typ, called)
		}
	}
	if unknown := got["unknown"]; unknown.Body["grpc"] != "12" || unknown.Body["said"] == nil {
		t.Errorf("call of a missing method = %+v, want status 12 with a text", unknown)
	}
	// One request is from the page, and one from the browser's cache.
	metrics := r.get(r.admin + "/metrics").body
	if n := len(regexp.MustCompile(`tipcache_proxy_requests_total\{.*status="304".*\} 2\n`).FindAllString(metrics, -1)); n != 1 {
		t.Errorf("metrics lack two responses with 304:\n%s", strings.Join(regexp.MustCompile(`tipcache_proxy_requests_total.*`).FindAllString(metrics, -1), "\n"))
	}
}

// browse opens a page and returns its results once it has finished.
func browse(t *testing.T, address string) map[string]pageResponse {
	t.Helper()
	page := openTab(t, address)
	const result = `document.querySelector('#result')?.textContent`
	page.until("done", result+` > ''`)
	var text string
	got := map[string]pageResponse{}
	if err := errors.Join(json.Unmarshal([]byte(page.value(result)), &text), json.Unmarshal([]byte(text), &got)); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return got
}

func TestStatusPageShowsMetrics(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: time.Second}), nil)
	for range 20 {
		r.get(r.base + "/staking/params")
		r.get(r.base + "/staking/pool")
	}
	page := openTab(t, r.admin+"/")
	page.eventually("showing the number of responses in the metrics", func() bool {
		return page.figure("answers") == r.metricSum("tipcache_proxy_requests_total")
	})
	before := r.metricSum("tipcache_node_tip_height")
	page.eventually("showing the block in the metrics", func() bool { return page.figure("tip") >= before })
	if tip, now := page.figure("tip"), r.metricSum("tipcache_node_tip_height"); tip > now {
		t.Errorf("tip on the page = %v, want at most %v as in the metrics", tip, now)
	}
	for _, want := range []string{`data-drawn="`, r.devnet.ChainID(), `title="staking_params"`, "<path", ">ready<"} {
		quoted, _ := json.Marshal(want)
		page.until("showing "+want, `document.documentElement.outerHTML.includes(`+string(quoted)+`)`)
	}
	if got := page.consoleErrors(); len(got) > 0 {
		t.Errorf("browser console has %+v, want no errors", got)
	}
}

// The hits are in other samples than the misses, so a mean of the samples' ratios is another figure.
func TestStatusPageCountsHits(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), nil)
	page := openTab(t, r.admin+"/")
	samples := func() float64 { return page.number(`Number(document.documentElement.dataset.drawn ?? 0)`) }
	nextSample := func() {
		before := samples()
		page.eventually("showing another sample", func() bool { return samples() > before })
	}
	for id, why := range map[string]string{"hits": "No request for a cached path in ten minutes", "answers": "No requests in ten minutes"} {
		page.until("saying why "+id+" is empty", `document.querySelector('#`+id+`-card svg').textContent === '`+why+`'`)
	}
	for _, path := range []string{"/staking/pool", "/staking/params", "/mint/params", "/slashing/params"} {
		nextSample()
		r.get(r.base + path)
	}
	nextSample()
	for range 396 {
		r.get(r.base + "/staking/pool")
	}
	page.eventually("showing the share of hits", func() bool { return page.figure("hits") == .99 })
}

func TestStatusPageShowsThatIndexerRunsOnIncompleteStore(t *testing.T) {
	d, url := newDevnet(t, devnet.Options{}), sqliteURL(t)
	d.Halt()
	indexAll(t, d, url)
	store := openURL(t, url)
	expect.NoError(t, store.MarkIncomplete(t.Context()))
	r := startRunning(t, d, indexing(d, url))
	page := openTab(t, r.admin+"/")
	const pill = `[...document.querySelectorAll('#parts li')].find((li) => li.textContent.startsWith('Indexer'))?.lastChild.outerHTML`
	page.until("showing that the indexer runs", pill+` === '<span class="pill warn">runs, counts too low</span>'`)
}

func TestManualWorksInBrowser(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	page := openTab(t, r.base+"/#validator")
	page.until("showing the search", `document.querySelector('p.find') !== null`)
	page.until("showing the request forms", `document.querySelector('form.try') !== null`)
	page.until("unfolded at the operation that the address names", `document.querySelector('article#validator details')?.open`)
	const shown = `[...document.querySelectorAll('.samples:has(.bar)')].every(s => s.querySelector('figure:not([hidden])').dataset.language === `
	page.until("showing samples in one language", shown+`'curl')`)
	page.value(`document.querySelector('article#validator .bar button[value=Go]').click()`)
	page.until("showing all samples in another", shown+`'Go') && document.querySelector('header figure:not([hidden])').innerText.includes('package main')`)
	if got := page.consoleErrors(); len(got) > 0 {
		t.Errorf("browser console has %+v, want no errors", got)
	}
}

func TestManualIsSearchedByKeyboardAndSendsFormFields(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	page := openTab(t, r.base+"/docs")
	page.until("showing the search", `!document.querySelector('p.find').hidden`)
	const press = `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: KEY, bubbles: true, cancelable: true }))`
	key := func(name string) { page.value(strings.ReplaceAll(press, "KEY", "'"+name+"'")) }
	page.value(`const s = document.getElementById('search'); s.focus(); s.value = 'rewards'; s.dispatchEvent(new Event('input'))`)
	key("ArrowDown")
	if got := page.value(`document.activeElement.textContent`); got != `"List the rewards of a delegator"` {
		t.Errorf("first hit for rewards = %s, want the rewards of a delegator", got)
	}
	key("ArrowUp")
	key("Enter")
	page.until("at the first hit", `location.hash === '#delegator_rewards' && document.querySelector('#delegator_rewards details').open`)
	key("Escape")
	page.until("showing all operations again", `document.getElementById('hits').hidden && !document.querySelector('#pool').hidden`)

	const form = `document.querySelector('#validators form')`
	page.value(`const f = ` + form + `; f.querySelector('[data-name="status"]').value = 'bonded'; const l = f.querySelector('[data-name="pagination.limit"]'); l.value = '2'; l.dispatchEvent(new Event('input', { bubbles: true }))`)
	if got := page.value(form + `.elements.target.value`); got != `"/staking/validators?status=bonded&pagination.limit=2"` {
		t.Errorf("target = %s, want the fields in it", got)
	}
	page.value(form + `.requestSubmit()`)
	const outcome = `document.querySelector('#validators [role=status]')`
	page.until("announcing the response", outcome+`.textContent.startsWith('200 OK')`)
	if got := page.consoleErrors(); len(got) > 0 {
		t.Errorf("browser console has %+v, want no errors", got)
	}
	const bar = `getComputedStyle(document.querySelector('#validators .answer')).borderLeftColor`
	good := page.value(bar)
	page.value(form + `.elements.target.value = '/staking/validators?status=9'; ` + form + `.requestSubmit()`)
	page.until("announcing the refusal", outcome+`.textContent.startsWith('400 Bad Request')`)
	if refused := page.value(bar); refused == good || page.value(`getComputedStyle(`+outcome+`).color`) != refused {
		t.Errorf("color of a response with 400 = %s, want another color than %s, which a response with 200 has", refused, good)
	}
}

func TestManualIsReadableInBothSchemesAndFillsBothColumns(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	page := openTab(t, r.base+"/docs#validators")
	page.until("unfolded", `document.querySelector('article#validators details')?.open`)
	for _, scheme := range []string{"light", "dark"} {
		page.show(scheme, 1280)
		const contrast = `(() => {
			const light = (color) => color.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0)
			const search = document.getElementById('search'), [a, b] = [getComputedStyle(search, '::placeholder').color, getComputedStyle(search).backgroundColor].map(light)
			return (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
		})()`
		if got := page.number(contrast); got < 4.5 {
			t.Errorf("contrast of the search's placeholder in the %s scheme = %.2f, want at least 4.5", scheme, got)
		}
	}
	page.value(`document.querySelector('#validators form').requestSubmit()`)
	page.until("showing the response", `!document.querySelector('#validators .answer').hidden`)
	page.value(`document.querySelector('#validators .fold').scrollIntoView({ block: 'end' })`)
	if got := page.value(`document.querySelector('#validators .text').getBoundingClientRect().bottom > innerHeight / 2`); got != "true" {
		t.Error("in a window 1280 pixels wide, the left column ends in the upper half, want it to reach the lower half")
	}
}

func TestManualShowsStreamUntilStopped(t *testing.T) {
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 500 * time.Millisecond}), nil)
	page := openTab(t, r.base+"/docs#live")
	const form, answer = `document.querySelector('article#live form.try')`, `document.querySelector('article#live .answer').textContent`
	const outcome = `document.querySelector('article#live .outcome').textContent`
	page.until("showing the request form", form+` && !`+form+`.hidden`)
	page.value(form + `.requestSubmit()`)
	page.until("showing the response", outcome+`.startsWith('200') && `+answer+`.includes('"path":"/staking/pool"')`)
	page.until("showing blocks", answer+`.split('event: block').length > 2`)
	page.value(form + `.requestSubmit()`)
	page.until("stopped", form+`.querySelector('button').textContent === 'Send'`)
	if got := page.value(answer + `.includes('event: block')`); got != "true" {
		t.Error("text received before the stop has disappeared")
	}
	r.eventually("no open stream", func() bool { return r.metricSum("tipcache_proxy_streams") == 0 })
	if got := page.consoleErrors(); len(got) > 0 {
		t.Errorf("browser console has %+v, want no errors", got)
	}
}
