package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

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
