package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// records are the lines of a log, each of which has to be JSON.
func records(t *testing.T, log string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%v in the line %s", err, line)
		}
		all = append(all, record)
	}
	return all
}

func TestErrorThatEndsServeIsLogged(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(nil)
	defer taken.Close()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a setting that is wrong": {[]string{"--shape", "round"}, "--shape: chain.shape"},
		"a file that is missing":  {[]string{"--config", "missing.yaml"}, "missing.yaml"},
		"an address that is taken": {
			[]string{"--listen", taken.Listener.Addr().String(), "--admin", "none", "--node", "none", "--store", "sqlite::memory:", "--collections-auth", "none"},
			"address already in use",
		},
	} {
		p := startProgram(t, nil, append([]string{"serve"}, tt.args...)...)
		<-p.ended
		if p.cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: exit status %d", name, p.cmd.ProcessState.ExitCode())
		}
		all := records(t, p.said.String())
		if len(all) == 0 {
			t.Fatalf("%s: nothing was logged", name)
		}
		last := all[len(all)-1]
		if text, _ := last["error"].(string); last["level"] != "ERROR" || last["msg"] != "serve ended with an error" || !strings.Contains(text, tt.want) {
			t.Errorf("%s: the last line is %v", name, last)
		}
	}
}

func TestOutageOfNodeIsLoggedAtStartAndEnd(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	var well atomic.Bool
	rest := relay(t, d.NodeURL(), func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if !well.Load() {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	p := startProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dialect", "story",
		"--node", rest.URL, "--comet", d.CometURL(), "--store", "sqlite::memory:", "--collections-auth", "none")
	name := "node " + rest.Listener.Addr().String()
	come, gone := `"msg":"upstream unreachable","origin":"`+name+`"`, `"msg":"upstream reachable again","origin":"`+name+`"`
	p.until(func() bool { return strings.Contains(p.said.String(), come) })
	admin := p.admin()
	for range 5 { // the log has one line for all of them
		status, body := ask(t, admin+"/readyz")
		if status != http.StatusOK || !strings.Contains(body, `"`+name+`":"has been failing for`) {
			t.Errorf("/readyz = %d %s, want 200 and %s as degraded: collections can be listed", status, body, name)
		}
	}
	well.Store(true)
	p.until(func() bool { return strings.Contains(p.said.String(), gone) })
	if n, m := p.said.Count(come), p.said.Count(gone); n != 1 || m != 1 || p.said.Count("readiness problem") > 0 {
		t.Errorf("%d and %d lines, want one each, and no other about the node: %s", n, m, p.said.String())
	}
	for _, record := range records(t, p.said.String()) {
		if text, _ := record["error"].(string); record["msg"] == "upstream unreachable" && record["origin"] == name && !strings.Contains(text, "cannot be reached") {
			t.Errorf("the line does not say what is wrong: %v", record)
		}
	}
}

func TestUnknownRouteIsAnsweredWithSuggestion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	must(t, os.WriteFile(file, []byte("routes: {validatr: {fresh_blocks: 1}}"), 0o600))
	if _, err := runs(t, "check", "--config", file); err == nil || !strings.Contains(err.Error(), "no such route; did you mean validator?") {
		t.Error(err)
	}
}
