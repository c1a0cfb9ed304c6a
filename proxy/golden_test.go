package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// Each golden file is one outcome of a route.
func TestResponsesEqualGoldenFiles(t *testing.T) {
	delegation := "/staking/validators/" + val5 + "/delegations/"
	periods := func(val, del string) string {
		return "/staking/validators/" + val + "/delegators/" + del + "/period_delegations"
	}
	tests := []struct{ name, target string }{
		{"validators.page", "/staking/validators?pagination.limit=2"},
		{"validators.beyond", "/staking/validators?pagination.offset=100000&pagination.limit=5"},
		{"validators.bad_limit", "/staking/validators?pagination.limit=abc"},
		{"validator.ok", "/staking/validators/" + val5},
		{"validator.locked", "/staking/validators/0x98a8473dc4db81ff3ade8a4448e06ac4fddfa339"},
		{"validator.not_found", "/staking/validators/" + nobody},
		{"validator.bad_address", "/staking/validators/" + val5[2:]},
		{"validator_delegations.page", "/staking/validators/" + val5 + "/delegations?pagination.limit=2"},
		{"validator_delegations.none", "/staking/validators/" + nobody + "/delegations"},
		{"delegator_delegations.page", "/staking/delegations/" + del0 + "?pagination.limit=2"},
		{"redelegations.ok", "/staking/delegators/" + del0 + "/redelegations"},
		{"redelegations.one_pair", "/staking/delegators/" + del0 + "/redelegations?src_validator_addr=" + val5 + "&dst_validator_addr=" + val6},
		{"redelegations.none", "/staking/delegators/0x6aac78c443db9eb53898fd6944f2d0bc0344de06/redelegations"},
		{"delegator_validator.ok", "/staking/delegators/" + del0 + "/validators/" + val5},
		{"delegator_validator.not_found", "/staking/delegators/" + nobody + "/validators/" + val5},
		{"delegation.ok", delegation + del0},
		{"delegation.not_found", delegation + nobody},
		{"period_delegations.ok", periods(val5, del0)},
		{"period_delegations.page", periods(val5, del1) + "?pagination.limit=2"},
		{"period_delegations.none", periods(nobody, del0)},
		{"staking_params.ok", "/staking/params"},
		{"distribution_params.ok", "/distribution/params"},
		{"auth_params.ok", "/auth/params"},
		{"delegator_rewards.ok", "/distribution/delegators/0x5244f20ed88040a6e54be2bd26f68d993d71b8fd/rewards"},
		{"delegator_rewards.none", "/distribution/delegators/" + nobody + "/rewards"},
		{"pool.ok", "/staking/pool"},
		{"nowhere", "/nowhere"},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.chain.grow(0) // the newest block arrives now
			s.get(t, tt.target, "Accept-Encoding", "identity").compareGolden(t, tt.name)
		})
	}
	s.chain.failWith(&upstream.Error{Kind: upstream.Overloaded, Msg: "the chain node is busy"})
	s.get(t, "/mint/params").compareGolden(t, "node_busy")
}

func (e exchange) compareGolden(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".http")
	if *update {
		expect.NoError(t, os.WriteFile(path, []byte(e.text()), 0o644))
	}
	want := expect.Value(os.ReadFile(path))(t)
	expect.NoDiff(t, e.text(), string(want), "response")
}

// text returns the response without headers that differ from run to run, and those for browsers, which do not depend on the route.
func (e exchange) text() string {
	var head []string
	for name, values := range e.header {
		if name == "Date" || name == "X-Request-Id" || strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		head = append(head, fmt.Sprintf("%s: %s\n", name, strings.Join(values, ", ")))
	}
	slices.Sort(head)
	return fmt.Sprintf("%d\n%s\n%s", e.status, strings.Join(head, ""), e.body)
}
