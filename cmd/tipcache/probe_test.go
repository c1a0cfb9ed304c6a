package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/probe"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestExitStatusOfProbe(t *testing.T) {
	t.Parallel()
	d := devnettest.Start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 200 * time.Millisecond})
	late := devnettest.AddNode(t, d)
	late.SetLag(5)
	node, long := d.NodeURL(), []string{"--for", "4s", "--rate", "100"}
	tests := []struct {
		name string
		args []string
		want int
		text string // part of the output
	}{
		{"without limits", []string{node, "--for", "100ms"}, 0, "at the newest block"},
		{"within limits", append([]string{node, "--max-behind", "3", "--max-failures", "0.5"}, long...), 0, "REST of the Cosmos SDK"},
		{"too far behind", append([]string{late.RESTURL(), "--tip", d.CometURL(), "--max-behind", "3"}, long...), 1, "more than 3 blocks behind"},
		{"few samples", []string{node, "--for", "100ms", "--max-behind", "3"}, 2, "too few samples"},
		{"no server", []string{"http://127.0.0.1:1"}, 2, "connection refused"},
		{"unknown flag", []string{node, "--rat", "1"}, 2, "did you mean --rate?"},
		{"share above 1", []string{node, "--max-failures", "5"}, 2, "want a share of 0 to 1"},
		{"no time", []string{node, "--for", "0s"}, 2, "--for and --rate must be above 0"},
		{"no reads", []string{node, "--for", "100ms", "--rate", "0"}, 2, "--for and --rate must be above 0"},
		{"no URL", nil, 2, "URL is missing"},
		{"picture that cannot be written", []string{node, "--for", "100ms", "--svg", filepath.Join(t.TempDir(), "no", "file.svg")}, 2, "no such file"},
		{"table before a picture that cannot be written", []string{node, "--for", "100ms", "--svg", filepath.Join(t.TempDir(), "no", "file.svg")}, 2, "at the newest block"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, nil, append([]string{"probe"}, tt.args...)...)
			p.waitForEnd()
			expect.Equal(t, p.cmd.ProcessState.ExitCode(), tt.want, "exit status")
			expect.Contains(t, p.output.String(), tt.text, "output")
		})
	}
}

func TestProbePrintsJSONAndWritesPicture(t *testing.T) {
	t.Parallel()
	d := devnettest.Start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 200 * time.Millisecond})
	file := filepath.Join(t.TempDir(), "probe.svg")
	out := expect.Value(runCommand(t, "probe", "node="+d.NodeURL(), "--for", "500ms", "--json", "--svg", file))(t)
	var r probe.Report
	expect.NoError(t, json.Unmarshal([]byte(out), &r))
	expect.Equal(t, r.Chain, d.ChainID(), "chain in JSON")
	expect.Equal(t, len(r.Endpoints), 1, "endpoints in JSON")
	expect.Contains(t, string(expect.Value(os.ReadFile(file))(t)), "<svg", "picture")
}
