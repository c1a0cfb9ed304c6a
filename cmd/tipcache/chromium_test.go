package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A tab is a page that stays open in a headless Chromium, which is controlled over
// its DevTools protocol, or in a headless Firefox, over WebDriver BiDi.
type tab struct {
	t       *testing.T
	conn    *websocket.Conn
	context string // of WebDriver BiDi; "" in Chromium

	mu      sync.Mutex
	calls   int
	replies map[int]chan json.RawMessage
	errors  []consoleError
}

// A consoleError is an error in the browser's console.
type consoleError struct{ Source, Text, URL string }

var chromiumFlags = []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync"}

// openTab opens a page until the test ends.
func openTab(t *testing.T, page string) *tab {
	t.Helper()
	if firefox := os.Getenv("TIPCACHE_TEST_FIREFOX"); firefox != "" {
		return openFirefox(t, firefox, page)
	}
	chromium := os.Getenv("TIPCACHE_TEST_CHROMIUM")
	if chromium == "" {
		t.Skip("set TIPCACHE_TEST_CHROMIUM to the path of Chromium to run this test: .ci/browser installs it")
	}
	b := &tab{t: t, replies: map[int]chan json.RawMessage{}}
	b.connect(b.find(startBrowser(t, func(profile string) *exec.Cmd {
		return exec.Command(chromium, append(chromiumFlags, "--remote-debugging-port=0", "--user-data-dir="+profile, "about:blank")...)
	})))
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		b.command(domain+".enable", nil)
	}
	b.command("Page.navigate", map[string]any{"url": page})
	return b
}

// startBrowser starts a browser with a profile of its own, until the test ends.
func startBrowser(t *testing.T, with func(profile string) *exec.Cmd) (profile string) {
	t.Helper()
	profile = expect.Value(os.MkdirTemp("", "tipcache-browser-"))(t)
	cmd := with(profile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.RemoveAll(profile) // a child may still write: it is a temporary directory
	})
	return profile
}

// find returns the debugger address of the page.
func (b *tab) find(profile string) string {
	b.t.Helper()
	var pages []struct {
		Type string
		URL  string `json:"webSocketDebuggerUrl"`
	}
	b.eventually("listening", func() bool {
		text, _ := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		port, _, ok := strings.Cut(string(text), "\n")
		if !ok {
			return false
		}
		resp, err := http.Get("http://127.0.0.1:" + port + "/json/list")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		list, _ := io.ReadAll(resp.Body)
		return json.Unmarshal(list, &pages) == nil && len(pages) > 0 && pages[0].Type == "page"
	})
	http.DefaultClient.CloseIdleConnections()
	return pages[0].URL
}

// connect connects to a debugger and reads its messages.
func (b *tab) connect(address string) {
	b.t.Helper()
	conn, _, err := websocket.Dial(b.t.Context(), address, nil)
	expect.NoError(b.t, err)
	b.conn = conn
	conn.SetReadLimit(1 << 24)
	ended := make(chan struct{})
	go func() { defer close(ended); b.read() }()
	b.t.Cleanup(func() { _ = conn.CloseNow(); <-ended })
}

// read records replies and console errors until the connection ends.
func (b *tab) read() {
	for {
		var m struct {
			ID     int
			Method string
			Params struct {
				Type        string
				Entry       struct{ Source, Level, Text, URL string }
				Level, Text string // of WebDriver BiDi

				ExceptionDetails json.RawMessage
				Args             json.RawMessage
			}
			Result json.RawMessage
		}
		if wsjson.Read(context.Background(), b.conn, &m) != nil {
			return
		}
		b.mu.Lock()
		switch e := m.Params.Entry; {
		case m.ID > 0:
			b.replies[m.ID] <- m.Result
		case m.Method == "log.entryAdded" && (m.Params.Level == "error" || m.Params.Level == "warn"):
			b.errors = append(b.errors, consoleError{m.Params.Type, m.Params.Text, ""})
		case m.Method == "Runtime.exceptionThrown":
			b.errors = append(b.errors, consoleError{"script", string(m.Params.ExceptionDetails), ""})
		case m.Method == "Runtime.consoleAPICalled" && (m.Params.Type == "error" || m.Params.Type == "warning"):
			b.errors = append(b.errors, consoleError{"console", string(m.Params.Args), ""})
		case m.Method == "Log.entryAdded" && (e.Level == "error" || e.Level == "warning"):
			b.errors = append(b.errors, consoleError{e.Source, e.Text, e.URL})
		}
		b.mu.Unlock()
	}
}

// command sends a command and returns its result.
func (b *tab) command(method string, params map[string]any) json.RawMessage {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	reply := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.calls++
	id := b.calls
	b.replies[id] = reply
	b.mu.Unlock()
	err := wsjson.Write(ctx, b.conn, map[string]any{"id": id, "method": method, "params": params})
	select {
	case result := <-reply:
		return result
	case <-ctx.Done():
		b.t.Fatalf("%s: %v", method, errors.Join(err, ctx.Err()))
		return nil
	}
}

// value returns the value of an expression in the page as JSON, or "" if it is undefined.
func (b *tab) value(expression string) string {
	b.t.Helper()
	if b.context != "" {
		return b.valueInFirefox(expression)
	}
	var evaluated struct {
		Result struct{ Value json.RawMessage }
	}
	reply := b.command("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if err := json.Unmarshal(reply, &evaluated); err != nil {
		b.t.Fatalf("%v in %s", err, reply)
	}
	return string(evaluated.Result.Value)
}

// figure returns the unrounded value of an element of the status page, or -1 if it shows none yet.
func (b *tab) figure(id string) float64 {
	b.t.Helper()
	return b.number(`Number(document.getElementById('` + id + `')?.dataset.value ?? -1)`)
}

// number returns the value of an expression in the page that is a number.
func (b *tab) number(expression string) float64 {
	b.t.Helper()
	return expect.Value(strconv.ParseFloat(b.value(expression), 64))(b.t)
}

// until waits for an expression to be true in the page.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	b.eventually(what, func() bool { return b.value(expression) == "true" })
}

func (b *tab) eventually(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("timed out waiting until %s; browser console: %+v", what, b.consoleErrors())
		}
	}
}

// consoleErrors returns the errors in the console so far.
func (b *tab) consoleErrors() []consoleError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.errors)
}

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
