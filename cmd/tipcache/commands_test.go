package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func runs(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, streams{&out, io.Discard})
	return out.String(), err
}

func TestHelpAndErrorsOfCommandLine(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // part of what is printed
	}{
		{"its version as a flag", []string{"--version"}, "tipcache " + parts.Version()},
		{"its version in short", []string{"-v"}, "tipcache " + parts.Version()},
		{"its version behind a command", []string{"serve", "--version"}, "tipcache " + parts.Version()},
		{"a command's help with the flags of that command", []string{"health", "--help"}, "--admin"},
		{"the document of a dialect", []string{"openapi", "--dialect", "cosmos", "--collections-auth", "closed"}, `"/cosmos/bank/v1beta1/balances/{address}"`},
		{"the document without a dialect", []string{"openapi", "--collections-auth", "closed"}, `"/staking/validators/{validator_addr}"`},
		{"the values of a flag, to a shell", []string{"__complete", "serve", "--shape", "d"}, "documented\n"},
		{"the levels of the log, to a shell", []string{"__complete", "demo", "--log-level", ""}, "debug\ninfo\nwarn\nerror\n"},
		{"the files of a flag, to a shell", []string{"__complete", "check", "--config", ""}, "yaml\nyml\n"},
		{"the beginnings of a flag, to a shell", []string{"__complete", "import", "--store", "s"}, "sqlite:tipcache.db\nsqlite:\n"},
		{"the address of a flag, to a shell", []string{"__complete", "explain", "--admin", ""}, "127.0.0.1:8081\nnone\n"},
		{"the paths to explain, to a shell", []string{"__complete", "explain", "/staking/v"}, "/staking/validators\n/staking/validators/\n"},
		{"the files to import, to a shell", []string{"__complete", "import", ""}, "jsonl\n:8\n"},
		{"no more files than a command takes, to a shell", []string{"__complete", "import", "a.jsonl", ""}, ":4\n"},
		{"no file for a name, to a shell", []string{"__complete", "key", "new", ""}, ":4\n"},
		{"the commands, to a shell", []string{"__complete", "se"}, "serve\t"},
		{"completion for bash", []string{"completion", "bash"}, "bash completion"},
		{"completion for zsh", []string{"completion", "zsh"}, "#compdef tipcache"},
		{"completion for fish", []string{"completion", "fish"}, "fish completion"},
	}
	for _, tt := range tests {
		out, err := runs(t, tt.args...)
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, %q is missing in %.300q", tt.name, err, tt.want, out)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"serve", "-h"}, {"demo", "-h"}, {"devnet", "-h"}, {"check", "-h"}, {"import", "-h"}, {"index", "-h"}, {"version"}} {
		if out, err := runs(t, args...); err != nil || out == "" {
			t.Errorf("%v: %v, %q; want its help", args, err, out)
		}
	}
	if out, err := runs(t, "openapi", "--mount", "/other"); err == nil {
		t.Errorf("openapi of a path that is not mounted = %q, want an error", out)
	}
	if out, _ := runs(t, "health", "--help"); strings.Contains(out, "--store") {
		t.Errorf("health does not take --store, but shows it:\n%s", out)
	}
}

func TestTypoIsAnsweredWithSuggestion(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"sevre"}, "serve"},
		{[]string{"serve", "--chian-id", "x"}, "did you mean --chain-id?"},
		{[]string{"serve", "x"}, `unexpected argument "x"`},
		{[]string{"check", "--shape", "round"}, "chain.shape"},
		{[]string{"explain"}, "URL is missing"},
		{[]string{"import", "a", "b"}, `unexpected argument "b"`},
	}
	for _, tt := range tests {
		if _, err := runs(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %q is missing in %v", tt.args, tt.want, err)
		}
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.jsonl")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	if out, err := runs(t, "import", file, "--store", "sqlite::memory:"); err != nil || !strings.Contains(out, "imported 0") {
		t.Errorf("%v, %q", err, out)
	}
}

func TestExampleIsValidConfiguration(t *testing.T) {
	text, err := runs(t, "config", "--example")
	if err != nil || text != config.Example {
		t.Fatalf("%v, %.100q", err, text)
	}
	for name, text := range map[string]string{"as printed": text, "with all that is commented out": uncommented(text)} {
		file := filepath.Join(t.TempDir(), "tipcache.yaml")
		expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := runs(t, "check", "--config", file); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// uncommented switches on what a comment holds, with a key in place of its
// placeholder.
func uncommented(text string) string {
	var b strings.Builder
	_, settings, _ := strings.Cut(text, "\n\n") // behind the head
	for line := range strings.Lines(settings) {
		before, setting, ok := strings.Cut(line, "# ")
		isSetting := strings.TrimSpace(before) == "" && (strings.Contains(setting, ": ") || strings.HasSuffix(setting, ":\n") || strings.Contains(setting, "- "))
		if ok && isSetting && !strings.Contains(setting, ". ") && !strings.HasSuffix(setting, ".\n") {
			line = before + setting
		}
		b.WriteString(line)
	}
	return strings.ReplaceAll(b.String(), "NAME:DIGEST", "web:"+strings.Repeat("0", 64))
}

// patientConfig returns a configuration file with a longer timeout of Redis than the default, for busy machines.
func patientConfig(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "patient.yaml")
	expect.NoError(t, os.WriteFile(file, []byte("redis: {timeout: 2500ms}\n"), 0o600))
	return file
}

func TestCheckDescribesUpstreams(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	address, _ := realRedis(t)
	const down = "http://127.0.0.1:1"
	all := func(node string) []string {
		return []string{
			"check", "--connect", "--config", patientConfig(t), "--listen", "127.0.0.1:0", "--admin", "none", "--node", node, "--comet", d.CometURL(), "--redis", "redis://" + address,
			"--store", "sqlite:" + filepath.Join(t.TempDir(), "c.db"), "--collections-auth", "none",
			"--metadata", "alchemy:" + d.MetadataURL() + "/nft/v3/hunter2", "--index", "--evm", d.EVMURL(), "--network", "aeneid",
		}
	}
	out, err := runs(t, all(d.NodeURL())...)
	if err != nil || strings.Count(out, "  ok: ") != 7 {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, want := range []string{"chain " + d.ChainID() + ", block ", "a new file", "answered in ", "chain 1315, block "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	for _, dialect := range []devnet.Dialect{devnet.Story, devnet.Cosmos} {
		d := newDevnet(t, devnet.Options{Dialect: dialect})
		out, err := runs(t, "check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none", "--node", d.NodeURL(), "--comet", d.CometURL())
		if err != nil || !strings.Contains(out, "speaks "+string(dialect)) {
			t.Errorf("a node of the dialect %s: %v:\n%s", dialect, err, out)
		}
	}
	args := append(all(down), "--metadata", "alchemy:"+down+"/nft/v3/hunter2", "--evm", down+"/hunter2")
	out, err = runs(t, args...)
	if err == nil || !strings.Contains(err.Error(), "3 of 8") || strings.Count(out, "FAILED: ") != 3 || strings.Contains(out, "hunter2") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = runs(t, "check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none", "--node", d.NodeURL(), "--comet", down)
	if err == nil || !strings.Contains(out, "comet ") || !strings.Contains(out, "FAILED: ") {
		t.Errorf("a CometBFT that is down: %v:\n%s", err, out)
	}
	out, err = runs(t, "check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none", "--node", d.NodeURL(), "--comet", "none")
	if err != nil || strings.Contains(out, "comet ") {
		t.Errorf("a node without CometBFT: %v:\n%s", err, out)
	}
}

func TestCheckReportsProblemOfEndpoint(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	served := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	silent := served(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server would not notice that the client has gone
		<-r.Context().Done()
	})
	bare := relay(t, d.CometURL(), func(next http.Handler, w http.ResponseWriter, r *http.Request) { // URIs are answered without an envelope
		if r.Method == http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		_, _ = io.WriteString(w, gjson.Get(answer.Body.String(), "result").Raw)
	}).URL
	execution := func(address, network string) []string {
		return []string{"--node", d.NodeURL(), "--comet", d.CometURL(), "--index", "--evm", address, "--network", network, "--store", "sqlite:" + filepath.Join(t.TempDir(), "c.db"), "--collections-auth", "none"}
	}
	readOnly := miniredis.RunT(t)
	readOnly.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
		if cmd == "SET" {
			peer.WriteError("READONLY You can't write against a read only replica.")
		}
		return cmd == "SET"
	})
	comet := func(address string) []string { return []string{"--node", d.NodeURL(), "--comet", address} }
	for _, tt := range []struct {
		name, part, says string
		args             []string
	}{
		{"no execution client", "execution", "FAILED: it answered 404", execution(served(http.NotFound), "aeneid")},
		{"an execution client that is silent", "execution", "FAILED: no answer in time", execution(silent, "aeneid")},
		{"an execution client of another chain", "execution", "FAILED: another chain: its chain id is 1315, the network's is 1514, and index.network is story", execution(d.EVMURL(), "story")},
		{"a Redis that refuses writes", "redis", "FAILED: it refuses writes: READONLY", []string{"--config", patientConfig(t), "--node", d.NodeURL(), "--comet", d.CometURL(), "--redis", "redis://" + readOnly.Addr()}},
		{"no CometBFT", "comet", "FAILED: status: status 404", comet(served(http.NotFound))},
		{"a CometBFT that is silent", "comet", "FAILED: no answer in time", comet(silent)},
		{"a CometBFT without an envelope for URIs", "comet", "ok: chain " + d.ChainID(), comet(bare)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, _ := runs(t, append([]string{"check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none"}, tt.args...)...)
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); f[0] == tt.part && strings.HasPrefix(strings.Join(f[2:], " "), tt.says) {
					return
				}
			}
			t.Errorf("not %q of the %s:\n%s", tt.says, tt.part, out)
		})
	}
}

func TestCheckNamesAddressesWithoutContract(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	file := filepath.Join(t.TempDir(), "c.yaml")
	const nobody = "0x00000000000000000000000000000000000000aa"
	custom := "index: {network: [1315, '" + devnet.IPAssetRegistry + "', '" + devnet.LicensingModule + "', '" + nobody + "']}\n"
	expect.NoError(t, os.WriteFile(file, []byte(custom), 0o600))
	out, err := runs(t, "check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none", "--config", file, "--node", d.NodeURL(), "--comet", d.CometURL(), "--collections-auth", "none",
		"--index", "--evm", d.EVMURL(), "--store", "sqlite:"+filepath.Join(t.TempDir(), "c.db"))
	if err == nil || !strings.Contains(out, "no contract at "+nobody+"\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestImportLogsCreationOfSchema(t *testing.T) {
	var said strings.Builder
	store := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	for i, want := range []bool{true, false} { // the second time the schema exists
		said.Reset()
		expect.NoError(t, run(t.Context(), []string{"import", os.DevNull, "--store", store}, streams{io.Discard, &said}))
		if strings.Contains(said.String(), "created the store's schema") != want {
			t.Errorf("import %d says %s", i+1, &said)
		}
	}
}
