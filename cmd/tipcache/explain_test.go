package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// explained runs the command against a service.
func explained(t *testing.T, r *running, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"explain", "--admin", r.admin}, args...), streams{&out, io.Discard}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExplainTellsWhatARequestWouldComeTo(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, nil)
	asked := func() int {
		n := 0
		for _, a := range d.Node().Stats().Asked {
			if a.URI == "/staking/pool" {
				n += int(a.Count)
			}
		}
		return n
	}
	if text := explained(t, r, "/staking/pool"); !strings.Contains(text, "verdict  miss") || asked() > 0 {
		t.Errorf("asked %d times: %s", asked(), text)
	}
	r.get(r.base + "/staking/pool")
	var text string
	r.eventually("stored in Redis, which the answer does not wait for", func() bool {
		text = explained(t, r, r.base+"/staking/pool/")
		return strings.Contains(text, "redis    fresh")
	})
	for _, line := range []string{"route    pool, class live", "key      documented/staking/pool", ", blocks 1 to 1000", "memory   fresh, block 1000", "redis    fresh, block 1000", "verdict  hit", "why      Memory has it"} {
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
	if text := explained(t, r, "--body", `{"pagination":{"limit":3}}`, "/api/v4/collections"); !strings.Contains(text, "3 collections from 0 on") {
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
	if asked() != 1 {
		t.Errorf("the node was asked %d times", asked())
	}
}

func TestExplainBringsTheAdminToken(t *testing.T) {
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

func TestAPurgeReachesAllReplicasAndRedis(t *testing.T) {
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
		if got.status != status || status == http.StatusOK && !strings.Contains(got.body, `"replicas":"told"`) {
			t.Errorf("%s: %d %s", test.what, got.status, got.body)
		}
		for _, i := range test.gone {
			for _, r := range []*running{a, b} {
				r.eventually("without "+paths[i], func() bool {
					text := explained(t, r, paths[i])
					return strings.Contains(text, "memory   nothing") && strings.Contains(text, "redis    nothing")
				})
			}
		}
		if left := strings.Count(explained(t, b, paths[0])+explained(t, b, paths[1])+explained(t, b, paths[2])+explained(t, b, paths[3]), "verdict  hit"); left != len(paths)-len(test.gone) {
			t.Errorf("%s: %d paths are left", test.what, left)
		}
	}
	for _, slip := range []string{"", "?all=false", "?route=", "?route=nowhere", "?route=pool&all=true", "?prefix=a&prefix=b", "?everything=true", "?address=x"} {
		if got := a.do(http.MethodPost, a.admin+"/admin/purge"+slip, ""); got.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", slip, got.status, got.body)
		}
	}
}
