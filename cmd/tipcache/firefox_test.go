package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// openFirefox opens a page in Firefox until the test ends.
func openFirefox(t *testing.T, firefox, page string) *tab {
	t.Helper()
	profile := startBrowser(t, func(profile string) *exec.Cmd {
		return exec.Command(firefox, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank")
	})
	b := &tab{t: t, replies: map[int]chan json.RawMessage{}}
	var at struct {
		Host string `json:"ws_host"`
		Port int    `json:"ws_port"`
	}
	b.eventually("listening", func() bool {
		text, _ := os.ReadFile(filepath.Join(profile, "WebDriverBiDiServer.json"))
		return json.Unmarshal(text, &at) == nil && at.Port > 0
	})
	b.connect(fmt.Sprintf("ws://%s:%d/session", at.Host, at.Port))
	b.command("session.new", map[string]any{"capabilities": map[string]any{}})
	b.command("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}})
	var tree struct {
		Contexts []struct{ Context string }
	}
	if err := json.Unmarshal(b.command("browsingContext.getTree", map[string]any{}), &tree); err != nil || len(tree.Contexts) == 0 {
		t.Fatalf("Firefox has %+v: %v", tree, err)
	}
	b.context = tree.Contexts[0].Context
	b.command("browsingContext.navigate", map[string]any{"context": b.context, "url": page})
	return b
}

// valueInFirefox returns the value of an expression in the page as JSON, or "" if it is undefined or fails.
func (b *tab) valueInFirefox(expression string) string {
	b.t.Helper()
	var evaluated struct {
		Result struct{ Value string }
	}
	reply := b.command("script.evaluate", map[string]any{"expression": "JSON.stringify(" + expression + ")", "target": map[string]any{"context": b.context}, "awaitPromise": false})
	if err := json.Unmarshal(reply, &evaluated); err != nil {
		b.t.Fatalf("%v in %s", err, reply)
	}
	return evaluated.Result.Value
}
