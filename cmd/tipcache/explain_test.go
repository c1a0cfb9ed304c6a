package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func explain(t *testing.T, r *instance, args ...string) string {
	t.Helper()
	return expect.Value(runCommand(t, append([]string{"explain", "--admin", r.admin}, args...)...))(t)
}

// purge sends a selection in a form.
func (r *instance) purge(selection string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, r.admin+"/admin/purge", selection, "Content-Type", "application/x-www-form-urlencoded")
}

func TestExplainDescribesOutcomeOfRequest(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, nil)
	nodeRequests := func() (n int) {
		for _, read := range d.Node().Stats().ReadCounts {
			if read.URI == "/staking/pool" {
				n += int(read.Count)
			}
		}
		return n
	}
	expect.Contains(t, explain(t, r, "/staking/pool"), "verdict    miss", "explanation before the first request")
	expect.Equal(t, nodeRequests(), 0, "node requests of an explanation")
	r.get(r.base+"/staking/pool").expectStatus(t, http.StatusOK)
	var text string
	r.eventually("stored in Redis", func() bool {
		text = explain(t, r, r.base+"/staking/pool/")
		return strings.Contains(text, "redis      fresh")
	})
	for _, line := range []string{"route      pool, class live", "key        documented/staking/pool", ", blocks 1 to 1000", "memory     fresh, block 1000", "redis      fresh, block 1000", "verdict    hit", "why        Memory has it"} {
		expect.Contains(t, text, line, "explanation")
	}
	expect.Contains(t, explain(t, r, "--admin", r.Addresses.Admin, "--height", "900", "/staking/pool"), "documented/staking/pool@900", "explanation at block 900")
	expect.Contains(t, explain(t, r, "/staking/validators?status=9"), "refused  400 {", "explanation of an invalid request")
	expect.Contains(t, explain(t, r, "/staking/pool?a=1&b=2"), "ignored    a, b\n", "explanation of parameters that the path does not take")
	if text := explain(t, r, "--body", `{"pagination":{"limit":3}}`, "/api/v4/collections"); !strings.Contains(text, "3 collections from 0 on") || strings.Contains(text, "9223372036854775807") {
		t.Errorf("explanation of a listing = %s, want 3 collections without a block", text)
	}
	var e proxy.Explanation
	expect.NoError(t, json.Unmarshal([]byte(explain(t, r, "--json", "/staking/pool")), &e))
	expect.Equal(t, e.Verdict, "hit", "verdict in JSON")
	for _, args := range [][]string{{"explain"}, {"explain", "--admin", r.admin, "nonsense"}, {"explain", "--admin", "http://127.0.0.1:1", "/staking/pool"}} {
		if out, err := runCommand(t, args...); err == nil {
			t.Errorf("%v = %s, want an error", args, out)
		}
	}
	expect.Equal(t, nodeRequests(), 1, "node requests")
}

func TestExplainSendsAdminToken(t *testing.T) {
	const token = "a token that nobody guesses"
	t.Setenv("TIPCACHE_ADMIN_TOKEN", token)
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.AdminToken = token })
	expect.Contains(t, explain(t, r, "/staking/pool"), "verdict", "explanation")
	t.Setenv("TIPCACHE_ADMIN_TOKEN", "")
	_, err := runCommand(t, "explain", "--admin", r.admin, "/staking/pool")
	expect.Contains(t, fmt.Sprint(err), "401", "error without a token")
}

func TestPurgeReachesAllReplicasAndRedis(t *testing.T) {
	t.Parallel()
	address, _ := redistest.Start(t)
	d := newDevnet(t, devnet.Options{Interval: -1})
	shared := func(c *config.Config) { c.Redis.URL = "redis://" + address }
	a, b := startRunning(t, d, shared), startRunning(t, d, shared)
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	channel := "tipcache:2:" + d.ChainID()
	a.eventually("both replicas subscribed to purges", func() bool { return client.PubSubNumSub(t.Context(), channel).Val()[channel] == 2 })
	paths := []string{"/staking/pool", "/staking/params", "/staking/validators/" + validator, "/staking/validators/" + validator + "/delegations"}
	for _, test := range []struct {
		selection string
		purged    []int // indices of paths; nil if the selection is invalid
	}{
		{"route=pool", []int{0}},
		{"prefix=documented/staking/p", []int{0, 1}},
		{"route=validator", []int{2}},
		{"address=" + strings.ToUpper(validator[2:]), nil},
		{"address=0x" + strings.ToUpper(validator[2:]), []int{2, 3}},
		{"route=nowhere", nil}, {"everything", nil}, {"all=maybe", nil}, {"route=", nil},
		{"all", []int{0, 1, 2, 3}},
	} {
		for _, r := range []*instance{a, b} {
			for _, path := range paths {
				r.get(r.base + path)
			}
		}
		out, err := runCommand(t, "purge", "--admin", a.admin, test.selection)
		if (err != nil) != (test.purged == nil) || err == nil && !strings.Contains(out, `"replicas":"notified"`) {
			t.Errorf("purge %s = %s, %v; want an error: %t", test.selection, out, err, test.purged == nil)
		}
		for _, i := range test.purged {
			for _, r := range []*instance{a, b} {
				r.eventually("no entry for "+paths[i], func() bool {
					text := explain(t, r, paths[i])
					return strings.Contains(text, "memory     nothing") && strings.Contains(text, "redis      nothing")
				})
			}
		}
		hits := strings.Count(explain(t, b, paths[0])+explain(t, b, paths[1])+explain(t, b, paths[2])+explain(t, b, paths[3]), "verdict    hit")
		expect.Equal(t, hits, len(paths)-len(test.purged), "entries left after %s", test.selection)
	}
	for _, selection := range []string{"", "?all=false", "?route=", "?route=nowhere", "?route=pool&all=true", "?prefix=a&prefix=b", "?everything=true", "?address=x"} {
		a.do(http.MethodPost, a.admin+"/admin/purge"+selection, "").expectStatus(t, http.StatusBadRequest)
	}
}

func TestPurgeFindsEntriesOfRPCAndGRPC(t *testing.T) {
	t.Parallel()
	const pool, message = "/cosmos.staking.v1beta1.Query/Pool", `{"id":1,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Pool"}}`
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		c.RPC.Listen, c.GRPC.Listen, c.Chain.GRPC = "127.0.0.1:0", "127.0.0.1:0", []string{d.Node().GRPCAddr()}
	})
	rpc := "http://" + r.Addresses.RPC
	balances := fmt.Sprintf(`%s/abci_query?path="/cosmos.bank.v1beta1.Query/AllBalances"&data=0x0a2d%x`, rpc, cosmos.WideDelegator) // field 1, 45 bytes
	outcomes := func() map[string]string {                                                                                          // Cache-Status by request
		return map[string]string{
			"pool":     r.do(http.MethodPost, rpc, message).header.Get("Cache-Status"),
			"balances": r.get(balances).header.Get("Cache-Status"),
			"block":    r.get(rpc + "/block?height=999").header.Get("Cache-Status"),
			"header":   r.get(rpc + "/header?height=999").header.Get("Cache-Status"),
		}
	}
	for _, tt := range []struct {
		selection string
		purged    []string
	}{
		{"method=cosmos.staking.v1beta1.Query/Pool", []string{"pool"}},
		{"method=" + pool, []string{"pool"}},
		{"route=grpc state", []string{"pool", "balances"}},
		{"route=rpc abci_query", []string{"pool", "balances"}},
		{"route=rpc block", []string{"block"}},
		{"address=" + strings.ToUpper(cosmos.WideDelegator), []string{"balances"}},
		{"route=rpc header", []string{"header"}},
	} {
		outcomes() // caches everything
		r.purge(tt.selection).expectStatus(t, http.StatusOK)
		for request, status := range outcomes() {
			if want := !slices.Contains(tt.purged, request); strings.Contains(status, "hit") != want {
				t.Errorf("%s after %s: Cache-Status = %q, want a hit: %t", request, tt.selection, status, want)
			}
		}
	}
	r.do(http.MethodPost, r.admin+"/admin/purge?method=cosmos.tx.v1beta1.Service/Simulate", "").expectStatus(t, http.StatusBadRequest)
}

func TestPurgeWithoutRedisReportsPurgedMemory(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), func(c *config.Config) { c.Redis.URL = "redis://" + shared.Addr() })
	r.eventually("use of Redis", func() bool {
		return r.get(r.base+"/staking/pool").status == http.StatusOK && len(shared.Keys()) > 0
	})
	shared.Close()
	r.purge("all=true").expectStatus(t, http.StatusBadGateway, `"memory":1`)
}

func TestImportOfMissingFileOpensNoStore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.db")
	_, err := runCommand(t, "import", "--store", "sqlite:"+file, "missing.jsonl")
	expect.Contains(t, fmt.Sprint(err), "missing.jsonl", "error of import")
	if _, err := os.Stat(file); err == nil {
		t.Error("import created the store file, want none")
	}
}
