package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
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
		expect.Equal(t, p.cmd.ProcessState.ExitCode(), 1, "%s: exit status", name)
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
