package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// runCommand returns what a command prints on standard output.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, streams{&out, io.Discard})
	return out.String(), err
}

// checkConnect runs check --connect with a free port.
func checkConnect(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runCommand(t, append([]string{"check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none"}, args...)...)
}

// writeFile writes a file into a new directory.
func writeFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestHelpAndErrorsOfCommandLine(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // part of the output
	}{
		{"version flag", []string{"--version"}, "tipcache " + parts.Version()},
		{"short version flag", []string{"-v"}, "tipcache " + parts.Version()},
		{"version flag of a command", []string{"serve", "--version"}, "tipcache " + parts.Version()},
		{"help of a command with its flags", []string{"health", "--help"}, "--admin"},
		{"OpenAPI document of a dialect", []string{"openapi", "--dialect", "cosmos", "--collections-auth", "closed"}, `"/cosmos/bank/v1beta1/balances/{address}"`},
		{"OpenAPI document without a dialect", []string{"openapi", "--collections-auth", "closed"}, `"/staking/validators/{validator_addr}"`},
		{"completion of commands", []string{"__complete", "se"}, "serve\t"},
		{"completion for bash", []string{"completion", "bash"}, "bash completion"},
		{"completion for zsh", []string{"completion", "zsh"}, "#compdef tipcache"},
		{"completion for fish", []string{"completion", "fish"}, "fish completion"},
	}
	for _, tt := range tests {
		out, err := runCommand(t, tt.args...)
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: output = %.300q, %v; want %q in it", tt.name, out, err, tt.want)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"serve", "-h"}, {"demo", "-h"}, {"devnet", "-h"}, {"check", "-h"}, {"import", "-h"}, {"index", "-h"}, {"probe", "-h"}, {"version"}} {
		if out, err := runCommand(t, args...); err != nil || out == "" {
			t.Errorf("%v = %q, %v; want its help", args, out, err)
		}
	}
	if out, err := runCommand(t, "openapi", "--mount", "/other"); err == nil {
		t.Errorf("openapi --mount /other = %q, want an error because /other is not mounted", out)
	}
	if out, _ := runCommand(t, "health", "--help"); strings.Contains(out, "--store") {
		t.Errorf("help of health = %s, want it without --store, which serve has", out)
	}
}

func TestErrorNamesInvalidArgument(t *testing.T) {
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
		if _, err := runCommand(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error = %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	out := expect.Value(runCommand(t, "import", os.DevNull, "--store", "sqlite::memory:"))(t)
	expect.Contains(t, out, "imported 0", "output")
}

func TestExampleIsValidConfiguration(t *testing.T) {
	text := expect.Value(runCommand(t, "config", "--example"))(t)
	expect.Equal(t, text, config.Example, "output of config --example")
	for name, text := range map[string]string{"as printed": text, "with all settings enabled": uncomment(text)} {
		if _, err := runCommand(t, "check", "--config", writeFile(t, "tipcache.yaml", text)); err != nil {
			t.Errorf("check of the example %s = %v, want no error\n%s", name, err, text)
		}
	}
}

// uncomment enables the settings in comments, with a key in place of the placeholder.
func uncomment(text string) string {
	var b strings.Builder
	_, settings, _ := strings.Cut(text, "\n\n") // without the introduction
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

// configWithRedisTimeout returns a configuration file with a longer Redis timeout than the default, for busy machines.
func configWithRedisTimeout(t *testing.T) string {
	t.Helper()
	return writeFile(t, "redis.yaml", "redis: {timeout: 2500ms}\n")
}

func TestCheckDescribesUpstreams(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	address, _ := redistest.Start(t)
	const down = "http://127.0.0.1:1"
	all := func(node string) []string {
		return []string{
			"--config", configWithRedisTimeout(t), "--node", node, "--comet", d.CometURL(), "--redis", "redis://" + address, "--store", sqliteURL(t), "--collections-auth", "none",
			"--metadata", "alchemy:" + d.MetadataURL() + "/nft/v3/hunter2", "--index", "--evm", d.EVMURL(), "--network", "aeneid",
		}
	}
	out := expect.Value(checkConnect(t, all(d.NodeURL())...))(t)
	expect.Equal(t, strings.Count(out, "  ok: "), 8, "parts that are ok in %s", out)
	for _, want := range []string{"chain " + d.ChainID() + ", block ", ", CometBFT 0.38.", "a new file", "it answers", "chain 1315, block ", "it would be ready"} {
		expect.Contains(t, out, want, "output")
	}
	for _, dialect := range []devnet.Dialect{devnet.Story, devnet.Cosmos} {
		d := newDevnet(t, devnet.Options{Dialect: dialect})
		out := expect.Value(checkConnect(t, "--node", d.NodeURL(), "--comet", d.CometURL()))(t)
		expect.Contains(t, out, "speaks "+string(dialect), "output")
	}
	out, err := checkConnect(t, append(all(down), "--metadata", "alchemy:"+down+"/nft/v3/hunter2", "--evm", down+"/hunter2")...)
	if err == nil || !strings.Contains(err.Error(), "3 of 9") || strings.Count(out, "FAILED: ") != 3 || strings.Contains(out, "hunter2") {
		t.Errorf("check with 3 servers down = %v, want 3 of 9 failed, and no keys:\n%s", err, out)
	}
	out, err = checkConnect(t, "--node", d.NodeURL(), "--comet", down)
	if err == nil || !strings.Contains(out, "comet ") || !strings.Contains(out, "FAILED: ") {
		t.Errorf("check with CometBFT down = %v, want comet failed:\n%s", err, out)
	}
	out, err = checkConnect(t, "--node", d.NodeURL(), "--comet", "none")
	if err != nil || strings.Contains(out, "comet ") {
		t.Errorf("check without CometBFT = %v, want success without comet:\n%s", err, out)
	}
}

func TestCheckReportsProblemOfEndpoint(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	start := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	silent := start(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has gone
		<-r.Context().Done()
	})
	withoutEnvelope := relay(t, d.CometURL(), func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		_, _ = io.WriteString(w, gjson.Get(recorder.Body.String(), "result").Raw)
	}).URL
	execution := func(address, network string) []string {
		return []string{"--node", d.NodeURL(), "--comet", d.CometURL(), "--index", "--evm", address, "--network", network, "--store", sqliteURL(t), "--collections-auth", "none"}
	}
	withoutScripts := miniredis.RunT(t)
	withoutScripts.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
		if cmd == "EVAL" {
			peer.WriteError("NOPERM this user has no permissions to run the 'eval' command")
		}
		return cmd == "EVAL"
	})
	comet := func(address string) []string { return []string{"--node", d.NodeURL(), "--comet", address} }
	other := newDevnet(t, devnet.Options{ChainID: "other-1"})
	slow := newDevnet(t, devnet.Options{StartHeight: 3, Faults: devnet.Faults{Node: devnet.Fault{Latency: 50 * time.Millisecond}}})
	for _, tt := range []struct {
		name, part, want string
		args             []string
	}{
		{"no execution client", "execution", "FAILED: it answered 404", execution(start(http.NotFound), "aeneid")},
		{"silent execution client", "execution", "FAILED: no answer in time", execution(silent, "aeneid")},
		{"execution client of another chain", "execution", "FAILED: another chain: its chain id is 1315, the network's is 1514, and index.network is story", execution(d.EVMURL(), "story")},
		{"Redis without scripts", "redis", "FAILED: it refuses scripts: NOPERM", []string{"--config", configWithRedisTimeout(t), "--node", d.NodeURL(), "--comet", d.CometURL(), "--redis", "redis://" + withoutScripts.Addr()}},
		{"no CometBFT", "comet", "FAILED: status: status 404", comet(start(http.NotFound))},
		{"silent CometBFT", "comet", "FAILED: no answer in time", comet(silent)},
		{"CometBFT without an envelope for URIs", "comet", "ok: chain " + d.ChainID(), comet(withoutEnvelope)},
		{"CometBFT of another chain", "node", `FAILED: serves chain "devnet-1" instead of "other-1"`, append(comet(d.CometURL()), "--chain-id", "other-1")},
		{"nodes of two chains", "node", "FAILED: serves chain ", append(comet(d.CometURL()), "--node", other.NodeURL(), "--comet", other.CometURL())},
		{"slow node without CometBFT", "node", "ok: chain unknown, block ", []string{"--node", slow.NodeURL(), "--comet", "none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, _ := checkConnect(t, tt.args...)
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); f[0] == tt.part && strings.HasPrefix(strings.Join(f[2:], " "), tt.want) {
					return
				}
			}
			t.Errorf("output = %s, want a line for %s with %q", out, tt.part, tt.want)
		})
	}
}

// An address that another server of the chain listens at is a common mistake.
func TestCheckExplainsMisplacedAddresses(t *testing.T) {
	t.Parallel()
	story, cosmos := newDevnet(t, devnet.Options{}), newDevnet(t, devnet.Options{Dialect: devnet.Cosmos})
	https := func(url string) string { return strings.Replace(url, "http:", "https:", 1) }
	nodes := func(node, comet string, more ...string) []string {
		return append([]string{"--node", node, "--comet", comet}, more...)
	}
	index := func(evm string) []string {
		return nodes(story.NodeURL(), "none", "--index", "--evm", evm, "--network", "aeneid", "--store", "sqlite::memory:", "--collections-auth", "none")
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	const (
		needsREST  = ": chain.nodes needs the REST API of a node, usually at port 1317"
		needsComet = ": chain.comet needs the RPC of CometBFT, usually at port 26657"
		needsEVM   = ": index.evm needs the JSON-RPC of an execution client, usually at port 8545"
		noTLS      = "it does not speak TLS: write http:// in place of https:// in "
	)
	for name, tt := range map[string]struct {
		args []string
		want map[string]string // by part
	}{
		"REST and RPC of Story swapped": {nodes(story.CometURL(), story.NodeURL()), map[string]string{
			"node":  "it speaks the RPC of CometBFT, which belongs in chain.comet" + needsREST,
			"comet": "it speaks the REST API of Story, which belongs in chain.nodes" + needsComet,
		}},
		"REST and RPC of Cosmos swapped, with the dialect": {nodes(cosmos.CometURL(), cosmos.NodeURL(), "--dialect", "cosmos"), map[string]string{
			"node":  "it speaks the RPC of CometBFT, which belongs in chain.comet" + needsREST,
			"comet": "it speaks the REST API of the Cosmos SDK, which belongs in chain.nodes" + needsComet,
		}},
		"https for http": {nodes(https(story.NodeURL()), https(story.CometURL())), map[string]string{"node": noTLS + "chain.nodes", "comet": noTLS + "chain.comet"}},
		"http for https": {nodes(strings.Replace(secure.URL, "https:", "http:", 1), "none"), map[string]string{"node": "it speaks TLS: write https:// in place of http:// in chain.nodes"}},
		"dialect of Cosmos for Story": {nodes(story.NodeURL(), story.CometURL(), "--dialect", "cosmos"), map[string]string{
			"node": "it speaks story, and chain.dialect is cosmos: set chain.dialect to story, or leave it empty",
		}},
		"dialect of Story for Cosmos": {nodes(cosmos.NodeURL(), "none", "--dialect", "story"), map[string]string{
			"node": "it speaks cosmos, and chain.dialect is story: set chain.dialect to cosmos, or leave it empty",
		}},
		"nodes of two dialects": {nodes(story.NodeURL(), story.CometURL(), nodes(cosmos.NodeURL(), cosmos.CometURL())...), map[string]string{
			"node": "it speaks cosmos, and the nodes before it story: chain.nodes must be nodes of one chain",
		}},
		"execution client as node": {nodes(story.EVMURL(), story.EVMURL()), map[string]string{
			"node":  "it speaks the JSON-RPC of an execution client, which belongs in index.evm" + needsREST,
			"comet": "it speaks the JSON-RPC of an execution client, which belongs in index.evm" + needsComet,
		}},
		"gRPC as node":  {nodes("http://"+cosmos.Node().GRPCAddr(), "none"), map[string]string{"node": "it speaks gRPC, which belongs in chain.grpc" + needsREST}},
		"REST as gRPC":  {nodes(cosmos.NodeURL(), cosmos.CometURL(), "--grpc", host(cosmos.NodeURL())), map[string]string{"grpc": "it speaks the REST API of the Cosmos SDK, which belongs in chain.nodes: chain.grpc needs the gRPC of a node, usually at port 9090"}},
		"TLS for gRPC":  {nodes(cosmos.NodeURL(), cosmos.CometURL(), "--grpc", "https://"+cosmos.Node().GRPCAddr()), map[string]string{"grpc": noTLS + "chain.grpc"}},
		"REST as EVM":   {index(story.NodeURL()), map[string]string{"execution": "it speaks the REST API of Story, which belongs in chain.nodes" + needsEVM}},
		"RPC as EVM":    {index(story.CometURL()), map[string]string{"execution": "it speaks the RPC of CometBFT, which belongs in chain.comet" + needsEVM}},
		"other website": {nodes(usedURL(t), "none"), map[string]string{"node": "it does not respond in a known dialect" + needsREST}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := checkConnect(t, tt.args...)
			for part, want := range tt.want {
				found := false
				for line := range strings.Lines(out) {
					found = found || strings.HasPrefix(line, "  "+part+" ") && strings.Contains(line, " 127.0.0.1:") && strings.HasSuffix(line, "  FAILED: "+want+"\n")
				}
				if err == nil || !found {
					t.Errorf("check = %v, want a line for %s with %q:\n%s", err, part, want, out)
				}
			}
		})
	}
}

func TestCheckReadsCometBFTBesideAnotherServer(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	out, err := checkConnect(t, "--node", d.EVMURL(), "--comet", d.CometURL())
	if err == nil || !strings.Contains(out, "  ok: chain "+d.ChainID()+", block ") {
		t.Errorf("check with an execution client as node = %v, want failure, and success for comet:\n%s", err, out)
	}
}

func usedURL(t *testing.T) string { return "http://" + usedAddress(t) }

func TestCheckNamesAddressesWithoutContract(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	const empty = "0x00000000000000000000000000000000000000aa"
	file := writeFile(t, "tipcache.yaml", "index: {network: [1315, '"+devnet.IPAssetRegistry+"', '"+devnet.LicensingModule+"', '"+empty+"']}\n")
	out, err := checkConnect(t, "--config", file, "--node", d.NodeURL(), "--comet", d.CometURL(), "--collections-auth", "none", "--index", "--evm", d.EVMURL(), "--store", sqliteURL(t))
	if err == nil || !strings.Contains(out, "no contract at "+empty+"\n") {
		t.Errorf("check = %v, want an error and the address %s:\n%s", err, empty, out)
	}
}

func TestImportReportsIgnoredMetadata(t *testing.T) {
	const lines = `{"collectionAddress":"0xAbC0000000000000000000000000000000000001","assetCount":1,"licensesCount":2,"raisedDisputeCount":3,` +
		`"cancelledDisputeCount":4,"judgedDisputeCount":5,"resolvedDisputeCount":6,"createdAt":"2026-01-01T00:00:00Z",` +
		`"updatedAt":"2026-01-02T03:04:05Z","collectionMetadata":{"name":"x"}}`
	out := expect.Value(runCommand(t, "import", writeFile(t, "c.jsonl", lines), "--store", "sqlite::memory:"))(t)
	expect.Contains(t, out, "imported 1 collections", "output")
	expect.Contains(t, out, "ignored the collectionMetadata of 1 lines", "output")
}

func TestImportLogsCreationOfSchema(t *testing.T) {
	store := sqliteURL(t)
	for i, want := range []bool{true, false} { // the second import finds the schema
		var log strings.Builder
		expect.NoError(t, run(t.Context(), []string{"import", os.DevNull, "--store", store}, streams{io.Discard, &log}))
		if got := strings.Contains(log.String(), "created the store's schema"); got != want {
			t.Errorf("import %d logs the creation = %t, want %t: %s", i+1, got, want, &log)
		}
	}
}

func TestFilesOfTheRepositoryRunExistingCommands(t *testing.T) {
	const root = "../../"
	runs := regexp.MustCompile(`(?:cmd|bin)/tipcache ([a-z]+)`)
	for _, file := range []string{".goreleaser.yaml", "README.md", "deploy/compose.yaml", "deploy/regions/compose.yaml", "deploy/systemd/tipcache.service", "deploy/typescript/generate.sh"} {
		for _, found := range runs.FindAllStringSubmatch(string(expect.Value(os.ReadFile(root+file))(t)), -1) {
			if _, err := runCommand(t, found[1], "--help"); err != nil {
				t.Errorf("%s runs tipcache %s: %v", file, found[1], err)
			}
		}
	}
}
