package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSettingsWithoutIntendedEffectAreWarnings(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		environ    []string
		want       []string
	}{
		{"known operations", "access: [deny /staking/pool tx_search /staking/validators/storyvaloper1x, limit 1/s cosmos.bank.v1beta1.Query/Balance, deny /*/validators/* tx_* unsafe_* * /staking/validators/*/del*, deny example.v1.Query/Custom example.v1.Query/*]", nil, nil},
		{
			"paths below a mount", "{access: [deny /api/staking/pool /api/v4/collections /api/v4/* /staking/*, deny /api/staking/*], http: {mounts: [{path: /api}]}}", nil,
			[]string{
				"1: access[0]: /api/staking/pool matches no path or method that tipcache knows; access rules take paths without the base path: /staking/pool",
				"1: access[1]: /api/staking/* matches no path or method that tipcache knows; access rules take paths without the base path: /staking/*",
			},
		},
		{
			"cost that only a client without a key can afford",
			"{access: [cost 100 tx_search], collections: {keys: ['free:" + hexDigest + ":10/s burst 20']}}", nil,
			[]string{"1: access[0]: cost 100 exceeds the burst of the rate of key free (20)"},
		},
		{
			"cost that only clients without a key can afford, within their rate",
			"{access: [cost 100 tx_search], http: {rate: 50/s burst 200}, collections: {rate: 10/s burst 30, keys: ['web:" + hexDigest + "']}}", nil,
			[]string{"1: access[0]: cost 100 exceeds the burst of collections.rate (30)"},
		},
		{
			"cost that only a key without a rate of its own can afford",
			"{access: [cost 100 tx_search], chain: {auth: keys}, http: {rate: 50/s burst 200}, collections: {keys: ['web:" + hexDigest + "', 'slow:" + strings.Repeat("b", 64) + ":6/h']}}", nil,
			[]string{"1: access[0]: cost 100 exceeds the burst of the rate of key slow (6)"},
		},
		{"no slash", "access: [deny staking/pool]", nil, []string{"1: access[0]: staking/pool matches no path or method that tipcache knows; did you mean /staking/pool?"}},
		{"typo in a path", "access: [deny /stakin/pool]", nil, []string{"1: access[0]: /stakin/pool matches no path or method that tipcache knows; did you mean /staking/pool?"}},
		{"typo in an RPC method", "access: [allow net_info, cost 2 tx_serch]", nil, []string{"1: access[1]: tx_serch matches no path or method that tipcache knows; did you mean tx_search?"}},
		{"typo in a gRPC method", "access: [deny cosmos.bank.v1beta1.Query/Balnce]", nil, []string{"1: access[0]: cosmos.bank.v1beta1.Query/Balnce matches no path or method that tipcache knows; did you mean cosmos.bank.v1beta1.Query/Balance?"}},
		{
			"stars that meet nothing", "access: [deny /no/such/* /stakin/* /staking/validatr/* /staking/validatr* /staking/validators/*/delegation tx_serch* cosmos.bnk.v1beta1.Query/* no_such_*]", nil,
			[]string{
				"1: access[0]: /no/such/* matches no path or method that tipcache knows",
				"1: access[0]: /stakin/* matches no path or method that tipcache knows; did you mean /staking/*?",
				"1: access[0]: /staking/validatr/* matches no path or method that tipcache knows; did you mean /staking/validators/*?",
				"1: access[0]: /staking/validatr* matches no path or method that tipcache knows; did you mean /staking/validators?",
				"1: access[0]: /staking/validators/*/delegation matches no path or method that tipcache knows; did you mean /staking/validators/*/delegations?",
				"1: access[0]: tx_serch* matches no path or method that tipcache knows; did you mean tx_search?",
				"1: access[0]: cosmos.bnk.v1beta1.Query/* matches no path or method that tipcache knows; did you mean cosmos.bank.v1beta1.Query?",
				"1: access[0]: no_such_* matches no path or method that tipcache knows",
			},
		},
		{"typo before a variable", "access: [deny /staking/validatrs/x]", nil, []string{"1: access[0]: /staking/validatrs/x matches no path or method that tipcache knows; did you mean /staking/validators/*?"}},
		{
			"cost that only a key can afford",
			"{access: [cost 100 tx_search], http: {rate: 10/s burst 30}, collections: {keys: ['partner:" + hexDigest + ":1000/h']}}", nil,
			[]string{"1: access[0]: cost 100 exceeds the burst of http.rate (30)"},
		},
		{
			"health checks that a fallback answers", "http: {mounts: [{path: /, fallback: 'http://x', always: ['/x', '/{v}']}, {path: /api, fallback: 'http://x', always: [/readyz]}]}", nil,
			[]string{
				"1: http.mounts[0].always[1]: health checks of /healthz on the public listener get the response of the fallback, not the state of tipcache",
				"1: http.mounts[0].always[1]: health checks of /readyz on the public listener get the response of the fallback, not the state of tipcache",
			},
		},
		{"access rule for a health check", "access: [deny /readyz]", nil, []string{"1: access[0]: /readyz matches no path or method that tipcache knows"}},
		{"proxies of a private network", "http: {trusted_proxies: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 'fc00::/7', 127.0.0.1, '::1', 100.64.0.0/10, 240.0.0.0/4]}", nil, nil},
		{"proxies of half of the addresses", "http: {trusted_proxies: [0.0.0.0/2, 64.0.0.0/3, '2000::/4', 10.0.0.0/8, 1.0.0.0/8, 64.0.0.0/3]}", nil, nil},
		{"proxies of all addresses", "http: {trusted_proxies: [0.0.0.0/0, '::/0']}", nil, []string{
			"1: http.trusted_proxies: the networks cover 100 % of the public IPv4 addresses, and a client with such an address can choose the address that rates and logs use: list only the networks of your proxies",
			"1: http.trusted_proxies: the networks cover 100 % of the public IPv6 addresses, and a client with such an address can choose the address that rates and logs use: list only the networks of your proxies",
		}},
		{"proxies of most addresses, in parts", "http: {trusted_proxies: [128.0.0.0/1, 10.0.0.0/8, 128.0.0.0/1, 200.0.0.0/8, 96.0.0.0/3, '2000::/4', '3000::/16']}", nil, []string{
			"1: http.trusted_proxies: the networks cover 57 % of the public IPv4 addresses, and a client with such an address can choose the address that rates and logs use: list only the networks of your proxies",
			"1: http.trusted_proxies: the networks cover 50 % of the public IPv6 addresses, and a client with such an address can choose the address that rates and logs use: list only the networks of your proxies",
		}},
		{"collections that are prepared and not served", "{index: {enabled: true}, metadata: {provider: 'blockscout:http://x'}}", nil, []string{
			"1: index.enabled: the store is filled, but collections are not served: set collections.keys, or collections.auth",
			"1: metadata.provider: it is not asked, because collections are not served: set collections.keys, or collections.auth",
		}},
		{"nothing to serve", "chain: {nodes: [none], comet: [none]}", nil, []string{"1: chain.nodes: no node is configured, and collections are not served"}},
		{"gRPC without a node's gRPC", "{grpc: {listen: ':9090'}}", nil, []string{"1: grpc.listen: without chain.grpc, only reads of state and methods of the RPC are served"}},
		{
			"collections of another chain", "{chain: {id: devnet-1}, index: {network: story, enabled: true}, collections: {auth: none}}", nil,
			[]string{"1: index.network: story is the network of another chain than chain.id (devnet-1), whose network is aeneid"},
		},
		{"collections of the other public chain, by default", "{chain: {id: devnet-1}, collections: {auth: none}}", nil, []string{"index.network: story is the network of another chain than chain.id (devnet-1), whose network is aeneid"}},
		{"collections of the same chain", "{chain: {id: devnet-1}, index: {network: aeneid, enabled: true}, collections: {auth: none}}", nil, nil},
		{"no collections", "{chain: {id: devnet-1}, index: {network: story}}", nil, nil},
		{"contracts of another network", "{chain: {id: devnet-1}, index: {network: [1, '0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222', '0x3333333333333333333333333333333333333333'], enabled: true}, collections: {auth: none}}", nil, nil},
		{"value that a variable overrides", "http: {rate: 10/s}", []string{"TIPCACHE_HTTP_RATE=20/s"}, []string{"1: http.rate: overridden by TIPCACHE_HTTP_RATE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := writeFile(t, tt.file)
			cfg := expect.Value(config.Load(config.Sources{File: file, Environ: tt.environ}))(t)
			var got, want []string
			for _, warning := range cfg.Warnings {
				got = append(got, warning.Error())
			}
			for _, line := range tt.want {
				if !strings.HasPrefix(line, "index.") { // a default has no place
					line = fmt.Sprintf("%s:%s", filepath.Base(file), line)
				}
				want = append(want, line)
			}
			expect.NoDiff(t, got, want, "warnings")
		})
	}
}

func TestCostAboveBurstIsRefused(t *testing.T) {
	for _, rate := range []string{"http: {rate: 10/s burst 30}", "chain: {auth: keys}, collections: {rate: 10/s burst 30, keys: ['web:" + hexDigest + "']}", "chain: {auth: keys}, collections: {keys: ['web:" + hexDigest + ":10/s burst 30']}"} {
		got := problems(t, config.Sources{File: writeFile(t, "{access: [cost 100 tx_search], "+rate+"}")})
		if len(got) != 1 || !strings.HasSuffix(got[0], " (30)") {
			t.Errorf("%s: problems = %q, want one about the cost", rate, got)
		}
	}
}
