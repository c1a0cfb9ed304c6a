package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/expect"
)

func explained(t *testing.T, r *running, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	expect.NoError(t, run(t.Context(), append([]string{"explain", "--admin", r.admin}, args...), streams{&out, io.Discard}))
	return out.String()
}

func TestExplainDescribesOutcomeOfRequest(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, nil)
	reads := func() int {
		n := 0
		for _, a := range d.Node().Stats().ReadCounts {
			if a.URI == "/staking/pool" {
				n += int(a.Count)
			}
		}
		return n
	}
	if text := explained(t, r, "/staking/pool"); !strings.Contains(text, "verdict    miss") || reads() > 0 {
		t.Errorf("node requests = %d, want 0, after %s", reads(), text)
	}
	r.get(r.base+"/staking/pool").wants(t, http.StatusOK)
	var text string
	defer func() {
		if t.Failed() {
			t.Log(text)
		}
	}()
	r.eventually("stored in Redis", func() bool {
		text = explained(t, r, r.base+"/staking/pool/")
		return strings.Contains(text, "redis      fresh")
	})
	for _, line := range []string{"route      pool, class live", "key        documented/staking/pool", ", blocks 1 to 1000", "memory     fresh, block 1000", "redis      fresh, block 1000", "verdict    hit", "why        Memory has it"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if text := explained(t, r, "--admin", r.AdminAddr(), "--height", "900", "/staking/pool"); !strings.Contains(text, "documented/staking/pool@900") {
		t.Error(text)
	}
	if text := explained(t, r, "/staking/validators?status=9"); !strings.Contains(text, "refused  400 {") {
		t.Error(text)
	}
	if text := explained(t, r, "--body", `{"pagination":{"limit":3}}`, "/api/v4/collections"); !strings.Contains(text, "3 collections from 0 on") || strings.Contains(text, "9223372036854775807") {
		t.Error(text)
	}
	var e proxy.Explanation
	if err := json.Unmarshal([]byte(explained(t, r, "--json", "/staking/pool")), &e); err != nil || e.Verdict != "hit" {
		t.Errorf("%v, %+v", err, e)
	}
	for _, args := range [][]string{{"explain"}, {"explain", "--admin", r.admin, "nonsense"}, {"explain", "--admin", "http://127.0.0.1:1", "/staking/pool"}} {
		if err := run(t.Context(), args, streams{io.Discard, io.Discard}); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
	expect.Equal(t, reads(), 1, "node requests")
}

func TestExplainSendsAdminToken(t *testing.T) {
	const token = "a token that nobody guesses"
	t.Setenv("TIPCACHE_ADMIN_TOKEN", token)
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.AdminToken = token })
	if text := explained(t, r, "/staking/pool"); !strings.Contains(text, "verdict") {
		t.Error(text)
	}
	t.Setenv("TIPCACHE_ADMIN_TOKEN", "")
	err := run(t.Context(), []string{"explain", "--admin", r.admin, "/staking/pool"}, streams{io.Discard, io.Discard})
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
}

func TestPurgeReachesAllReplicasAndRedis(t *testing.T) {
	t.Parallel()
	address, _ := realRedis(t)
	d := newDevnet(t, devnet.Options{Interval: -1})
	shared := func(c *config.Config) { c.Redis.URL = "redis://" + address }
	a, b := startRunning(t, d, shared), startRunning(t, d, shared)
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	channel := "tipcache:1:" + d.ChainID()
	a.eventually("heard by both", func() bool { return client.PubSubNumSub(t.Context(), channel).Val()[channel] == 2 })
	paths := []string{"/staking/pool", "/staking/params", "/staking/validators/" + validator, "/staking/validators/" + validator + "/delegations"}
	tests := []struct {
		what string
		gone []int // of the paths
	}{
		{"route=pool", []int{0}},
		{"prefix=documented/staking/p", []int{0, 1}},
		{"route=validator", []int{2}},
		{"address=" + strings.ToUpper(validator[2:]), nil},
		{"address=0x" + strings.ToUpper(validator[2:]), []int{2, 3}},
		{"all=true", []int{0, 1, 2, 3}},
	}
	for _, test := range tests {
		for _, r := range []*running{a, b} {
			for _, path := range paths {
				r.get(r.base + path)
			}
		}
		status := http.StatusOK
		if test.gone == nil {
			status = http.StatusBadRequest
		}
		got := a.do(http.MethodPost, a.admin+"/admin/purge", test.what, "Content-Type", "application/x-www-form-urlencoded")
		if got.status != status || status == http.StatusOK && !strings.Contains(got.body, `"replicas":"notified"`) {
			t.Errorf("%s: %d %s", test.what, got.status, got.body)
		}
		for _, i := range test.gone {
			for _, r := range []*running{a, b} {
				r.eventually("without "+paths[i], func() bool {
					text := explained(t, r, paths[i])
					return strings.Contains(text, "memory     nothing") && strings.Contains(text, "redis      nothing")
				})
			}
		}
		if left := strings.Count(explained(t, b, paths[0])+explained(t, b, paths[1])+explained(t, b, paths[2])+explained(t, b, paths[3]), "verdict    hit"); left != len(paths)-len(test.gone) {
			t.Errorf("%s: %d paths are left", test.what, left)
		}
	}
	for _, slip := range []string{"", "?all=false", "?route=", "?route=nowhere", "?route=pool&all=true", "?prefix=a&prefix=b", "?everything=true", "?address=x"} {
		a.do(http.MethodPost, a.admin+"/admin/purge"+slip, "").wants(t, http.StatusBadRequest)
	}
}

func TestPurgeFindsEntriesOfRPCAndGRPC(t *testing.T) {
	t.Parallel()
	const pool, message = "/cosmos.staking.v1beta1.Query/Pool", `{"id":1,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Pool"}}`
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		c.RPC.Listen, c.GRPC.Listen, c.Chain.GRPC = "127.0.0.1:0", "127.0.0.1:0", []string{d.Node().GRPCAddr()}
	})
	rpc := "http://" + r.RPCAddr()
	ask, _ := hex.DecodeString("0a2d") // its first field is an address of 45 bytes
	balances := hex.EncodeToString(append(ask, cosmos.WideDelegator...))
	abci := func(data string) string {
		return rpc + `/abci_query?path="/cosmos.bank.v1beta1.Query/AllBalances"&data=0x` + data
	}
	outcomes := func() map[string]string { // Cache-Status by request
		return map[string]string{
			"pool":     r.do(http.MethodPost, rpc, message).header.Get("Cache-Status"),
			"balances": r.get(abci(balances)).header.Get("Cache-Status"),
			"block":    r.get(rpc + "/block?height=999").header.Get("Cache-Status"),
			"header":   r.get(rpc + "/header?height=999").header.Get("Cache-Status"),
		}
	}
	for _, tt := range []struct {
		purge string
		gone  []string
	}{
		{"method=cosmos.staking.v1beta1.Query/Pool", []string{"pool"}},
		{"method=" + pool, []string{"pool"}},
		{"route=grpc state", []string{"pool", "balances"}},
		{"route=rpc abci_query", []string{"pool", "balances"}},
		{"route=rpc block", []string{"block"}},
		{"address=" + strings.ToUpper(cosmos.WideDelegator), []string{"balances"}},
		{"route=rpc header", []string{"header"}},
	} {
		outcomes() // everything is cached
		r.do(http.MethodPost, r.admin+"/admin/purge", tt.purge, "Content-Type", "application/x-www-form-urlencoded").wants(t, http.StatusOK)
		for request, status := range outcomes() {
			if want := !slices.Contains(tt.gone, request); strings.Contains(status, "hit") != want {
				t.Errorf("%s after %s: Cache-Status = %q, want a hit: %t", request, tt.purge, status, want)
			}
		}
	}
	r.do(http.MethodPost, r.admin+"/admin/purge?method=cosmos.tx.v1beta1.Service/Simulate", "").wants(t, http.StatusBadRequest)
}

func TestPurgeRemovesSelectedEntries(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), nil)
	purge := func(selection string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), []string{"purge", "--admin", r.admin, selection}, streams{&out, io.Discard})
		return out.String(), err
	}
	for _, selection := range []string{"route=pool", "all"} {
		r.get(r.base+"/staking/pool").wants(t, http.StatusOK)
		if out, err := purge(selection); err != nil || !strings.Contains(out, `"memory":1`) {
			t.Errorf("purge %s = %s, %v; want one entry", selection, out, err)
		}
	}
	for _, selection := range []string{"route=nowhere", "everything", "all=maybe", "route="} {
		if out, err := purge(selection); err == nil {
			t.Errorf("purge %s = %s, want an error", selection, out)
		}
	}
}

func TestImportOfMissingFileOpensNoStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.db")
	err := run(t.Context(), []string{"import", "--store", "sqlite:" + file, "missing.jsonl"}, streams{io.Discard, io.Discard})
	if err == nil || !strings.Contains(err.Error(), "missing.jsonl") {
		t.Errorf("error = %v, want one that names the file", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("store file exists, want none")
	}
}
