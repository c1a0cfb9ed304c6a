package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// records returns the lines of a log, which must be JSON.
func records(t *testing.T, log string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("log line %s: %v", line, err)
		}
		all = append(all, record)
	}
	return all
}

func TestErrorThatEndsServeIsLogged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"invalid setting": {[]string{"--shape", "round"}, "--shape: chain.shape"},
		"missing file":    {[]string{"--config", "missing.yaml"}, "missing.yaml"},
		"address in use": {
			[]string{"--listen", usedAddress(t), "--admin", "none", "--node", "none", "--store", "sqlite::memory:", "--collections-auth", "none"},
			"address already in use",
		},
	} {
		p := startProgram(t, nil, append([]string{"serve"}, tt.args...)...)
		p.waitForEnd()
		expect.Equal(t, p.cmd.ProcessState.ExitCode(), 1, "%s: exit status", name)
		all := records(t, p.output.String())
		if len(all) == 0 {
			t.Fatalf("%s: nothing was logged", name)
		}
		last := all[len(all)-1]
		if text, _ := last["error"].(string); last["level"] != "ERROR" || last["msg"] != "serve ended with an error" || !strings.Contains(text, tt.want) {
			t.Errorf("%s: last log line = %v, want an error with %q", name, last, tt.want)
		}
	}
}
