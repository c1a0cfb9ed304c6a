package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/node"
)

// signingInfo is the path of a public key; the node below has no word for those that
// end in bad.
func signingInfo(end string) string {
	return "/slashing/signing_infos/0x02" + strings.Repeat("0", 64-len(end)) + end
}

const (
	badKey     = "bad"
	badKeyBody = `{"code":500,"msg":null,"error":"secp256k1: invalid x coordinate"}`
)

// failing answers all keys but the bad one, of which it says what no row of the table
// of texts has; sound is whether it reads something else at that height then.
func failing(sound bool) func(r node.Request) (*node.Answer, error) {
	return func(r node.Request) (*node.Answer, error) {
		if strings.HasSuffix(r.Path, badKey) {
			return &node.Answer{
				Status: 502, NodeStatus: 500, Type: respond.JSON, Reason: node.Other, Sound: sound, Height: standstill,
				Body: []byte(badKeyBody), Text: "secp256k1: invalid x coordinate",
			}, nil
		}
		return &node.Answer{Status: 200, NodeStatus: 200, Type: respond.JSON, Height: standstill, Body: []byte(`{"code":200,"msg":{"val_signing_info":{}},"error":""}`)}, nil
	}
}

func TestAFailureOfUnknownTextIsBlamedOnTheInputOrOnTheNode(t *testing.T) {
	for name, tt := range map[string]struct {
		shape  chain.Shape
		others bool // the row has answered another key
		sound  bool
		status int
		body   string
		fault  string // as the metrics have it
	}{
		"the row works, and so does the node": {"", true, true, 400, `{"code":400,"msg":{},"error":"secp256k1: invalid x coordinate"}` + "\n", ""},
		"the row has answered nothing else":   {"", false, true, 502, `{"code":502,"msg":{},"error":"secp256k1: invalid x coordinate"}` + "\n", "server"},
		"the node reads nothing else":         {"", true, false, 502, `{"code":502,"msg":{},"error":"secp256k1: invalid x coordinate"}` + "\n", "server"},
		"its own shape, the input's":          {chain.Node, true, true, 500, badKeyBody, "input"},
		"its own shape, the node's":           {chain.Node, true, false, 500, badKeyBody, "server"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			s := startChain(t, proxy.Options{Chain: chain.Options{Shape: tt.shape}, Web: web.Options{Registerer: registry}})
			s.chain.does(failing(tt.sound))
			if tt.others {
				if got := s.get(t, signingInfo("1")); got.status != http.StatusOK {
					t.Fatalf("status %d: %s", got.status, got.body)
				}
			}
			for range 2 { // from the node, and from the cache
				if got := s.get(t, signingInfo(badKey)); got.status != tt.status || got.body != tt.body {
					t.Errorf("status %d, want %d: %s", got.status, tt.status, got.body)
				}
			}
			all := counted(t, registry, "tipcache_proxy_requests_total")
			fault, status := fmt.Sprintf(`fault:%q `, tt.fault), fmt.Sprintf(`status:"%d"`, tt.status)
			if !slices.ContainsFunc(all, func(line string) bool { return strings.Contains(line, fault) && strings.Contains(line, status) }) {
				t.Errorf("counted %v, want fault %q", all, tt.fault)
			}
		})
	}
}

// A key that has a good answer is not bad: the node is.
func TestAKeyWithAGoodAnswerIsNotBlamed(t *testing.T) {
	s := startChain(t, proxy.Options{})
	good := s.get(t, anyPath)
	s.chain.does(func(r node.Request) (*node.Answer, error) {
		a, err := failing(true)(r)
		if r.Path == anyPath {
			a = &node.Answer{Status: 502, NodeStatus: 500, Reason: node.Other, Sound: true, Height: standstill, Text: "broken", Body: []byte(badKeyBody)}
		}
		return a, err
	})
	s.chain.grow(10)
	got := s.get(t, anyPath)
	if got.status != http.StatusOK || got.body != good.body || !strings.Contains(got.header.Get("Cache-Status"), "stale-if-error") {
		t.Errorf("status %d, %s: %s", got.status, got.header.Get("Cache-Status"), got.body)
	}
}

// In Cosmos the height that an error tells says that it is the state's word about the
// input.
func TestA500OfTheStateIsTheInputs(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Web.Registerer = registry })
	for range 2 {
		if resp, body := s.get(t, "/cosmos/staking/v1beta1/delegations/abc"); resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("status %d: %s", resp.StatusCode, body)
		}
	}
	all := strings.Join(counted(t, registry, "tipcache_proxy_requests_total"), "\n")
	if !strings.Contains(all, `fault:"input"`) || strings.Contains(all, `fault:"server"`) {
		t.Errorf("counted\n%s", all)
	}
}
