package proxy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestTheNodesShapeIsTheNodesBytes(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	for _, r := range recordings(t) {
		if r.Height != "" || strings.Contains(r.Name, "encoded_slash") || r.Status == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(1000)
			got := s.get(t, r.target())
			if diff := cmp.Diff(r.Raw, got.body); diff != "" || got.status != r.Status {
				t.Errorf("status %d, want %d; body (-want +got):\n%s", got.status, r.Status, diff)
			}
		})
	}
}

func TestTheNodesShapeAsksAsItWasAsked(t *testing.T) {
	tests := []struct{ name, target, asked string }{
		{"base64 keys stay what they are", "/staking/validators?pagination.key=FA6V", "/staking/validators?pagination.key=FA6V"},
		{"empty values are sent", "/staking/validators?pagination.limit=&status=", "/staking/validators?status=&pagination.limit="},
		{"names as the node reads them", "/staking/validators?PAGINATION.limit=5&pagination.LIMIT[]=6", "/staking/validators?pagination.limit=6"},
		{"malformed values are sent", "/staking/validators?status=Bonded&pagination.limit=abc", "/staking/validators?status=Bonded&pagination.limit=abc"},
		{"a pair with a semicolon is dropped", "/staking/validators?status=a;b&pagination.limit=5;x=1&pagination.offset=2", "/staking/validators?pagination.offset=2"},
		{"other names are not", "/staking/validators?x=y&%zz=1&status=%zz", "/staking/validators"},
		{"hex is spelled one way", "/staking/validators/0X5C8A1d51b8D99F2D7bafD80D19a74003B4E397B0", "/staking/validators/" + val5},
		{"malformed addresses are sent", "/staking/validators/0xZz%20", "/staking/validators/0xZz%20"},
		{"bech32 is sent", "/staking/validators/" + val5Bech32, "/staking/validators/" + val5Bech32},
	}
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.get(t, tt.target)
			if got := asked(s.chain); got != tt.asked {
				t.Errorf("asked %s, want %s", got, tt.asked)
			}
		})
	}
}

func TestTheNodesShapeReadsHeightsAsTheNodeDoes(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	for sent, want := range map[string]int64{"": node.AtTip, "0": node.AtTip, "0x10": node.AtTip, "100.0": node.AtTip, "+100": 100, "101": 101, "999999": 999_999} {
		s.chain.grow(1000) // past the answers before
		s.get(t, anyPath, "X-Block-Height", sent)
		if got := s.chain.last().Height; got != want {
			t.Errorf("%q is read at %d, want %d", sent, got, want)
		}
	}
	got := s.get(t, anyPath, "X-Block-Height", "-1")
	if got.status != 500 || !strings.HasPrefix(got.body, `{"code":500,"msg":null,"error":"failed`) || !strings.Contains(got.body, `cannot query with height \u003c 0`) {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

func TestTheNodesShapeHasTheNodesNotFound(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	got := s.get(t, "/nowhere")
	if got.status != 404 || got.body != "404 page not found\n" {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	s.chain.fails(&upstream.Error{Kind: upstream.Timeout, Msg: "too late"})
	s.get(t, anyPath).refuses(t, 504, `{"code":504,"msg":{},"error":"too late"}`+"\n")
}

func TestTheNodesShapeNamesTheFormOfAPageKey(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	const periods = "/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations"
	for target, want := range map[string]node.KeyForm{
		"/staking/validators?pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ":                              node.Base64Keys,
		"/staking/validators?pagination.key=%14%0E%95r%B900%07%84%04J%26-%87%DA%91%B4%F2%AC%E3%89&x=y": node.RawKeys,
		"/staking/validators?pagination.key=zzzz":                                                      node.UnknownKeys,
		"/staking/validators?pagination.limit=5":                                                       node.UnknownKeys,
		periods + "?pagination.key=1014":                                                               node.RawKeys,
		periods + "?pagination.key=MTAxNA%3D%3D":                                                       node.Base64Keys,
	} {
		s.get(t, target)
		if got := s.chain.last(); got.Keys != want || got.PageKey != "" {
			t.Errorf("%s: form = %q, key to be encoded = %q, want %q and none", target, got.Keys, got.PageKey, want)
		}
	}
}
