package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
)

func TestARemovedKeyAtItsConstantIsAWarningAndAtAnotherValueAProblem(t *testing.T) {
	const always = "chain.hedge: no longer a setting, always 0s: delete it"
	const refused = always + "; another node is asked once one fails or exceeds chain.timeout, so lower that if it is too long"
	tests := []struct {
		name               string
		file               string
		environ            []string
		warnings, refusals []string
	}{
		{"a file that says its constant", "chain:\n  hedge: 0", nil, []string{"tipcache.yaml:2: " + always + ", the next version refuses it"}, nil},
		{"a file that says something else", "chain:\n  hedge: 1s", nil, nil, []string{"tipcache.yaml:2: " + refused}},
		{"a file that says no time", "chain:\n  hedge: never", nil, nil, []string{"tipcache.yaml:2: " + refused}},
		{"a file that lists several", "chain:\n  hedge: [1s, 2s]", nil, nil, []string{"tipcache.yaml:2: " + refused}},
		{"a file that says nothing", "chain:\n  hedge:", nil, nil, nil},
		{"a variable with its constant", "", []string{"TIPCACHE_CHAIN_HEDGE=0ms"}, []string{"TIPCACHE_CHAIN_HEDGE: " + always + ", the next version refuses it"}, nil},
		{"a variable with something else", "", []string{"TIPCACHE_CHAIN_HEDGE=1s"}, nil, []string{"TIPCACHE_CHAIN_HEDGE: " + refused}},
		{"a variable before a file", "chain: {hedge: 1s}", []string{"TIPCACHE_CHAIN_HEDGE=0s"}, []string{"TIPCACHE_CHAIN_HEDGE: " + always + ", the next version refuses it"}, nil},
		{"a size", "chain:\n  max_body: 67108864", nil, []string{"tipcache.yaml:2: chain.max_body: no longer a setting, always 64MiB: delete it, the next version refuses it"}, nil},
		{"a number", "chain: {max_page_limit: 7}", nil, nil, []string{"tipcache.yaml:1: chain.max_page_limit: no longer a setting, always 100000: delete it; have clients walk longer lists by next_key"}},
		{"one that is part of another setting", "log: {sample: 1}", nil, []string{"tipcache.yaml:1: log.sample: no longer a setting, part of log.access: delete it, the next version refuses it"}, nil},
		{"a value that another setting says now", "", []string{"TIPCACHE_LOG_SAMPLE=0.1"}, nil, []string{"TIPCACHE_LOG_SAMPLE: log.sample: no longer a setting, part of log.access: delete it; write the share as log.access, 1e-9 for 0"}},
		{"what was a section", "index:\n  contracts:\n    chain_id: 1315\n    disputes: ''", nil,
			[]string{"tipcache.yaml:4: index.contracts.disputes: no longer a setting, part of index.network: delete it, the next version refuses it"},
			[]string{"tipcache.yaml:3: index.contracts.chain_id: no longer a setting, part of index.network: delete it; write index.network: [CHAIN_ID, REGISTRY, LICENSING, DISPUTES]"}},
		{"what was a section and says nothing", "index: {contracts: {}}", nil, nil, nil},
		{"what was a list", "index: {contracts: [1315, '', '', '']}", nil, nil,
			[]string{"tipcache.yaml:1: index.contracts: no longer a setting, part of index.network: delete it; write index.network: [CHAIN_ID, REGISTRY, LICENSING, DISPUTES]"}},
		{"an unknown key in what was a section", "index: {contracts: {owner: 1}}", nil, nil, []string{"tipcache.yaml:1: index.contracts.owner: no such setting"}},
		{"a name that the network has now", "metadata: {network: story-aeneid}", nil, nil, []string{"tipcache.yaml:1: metadata.network: no longer a setting, part of index.network: delete it; index.network names it: story-mainnet, story-aeneid, or the chain id of a network of your own"}},
		{"times of pages", "collections: {auth: none, stale: 2m, fresh: 5s, stale_if_error: 1h}", nil,
			[]string{"tipcache.yaml:1: collections.fresh: no longer a setting, always 5s: delete it, the next version refuses it",
				"tipcache.yaml:1: collections.stale_if_error: no longer a setting, always 1h: delete it, the next version refuses it"},
			[]string{"tipcache.yaml:1: collections.stale: no longer a setting, always 1m: delete it; pages are served for 1h while the store fails"}},
		{"a time that follows another", "chain: {timeout: 9s}\nhttp: {request: 27s, drain: 20s}", nil,
			[]string{"tipcache.yaml:2: http.drain: no longer a setting, derived from chain.timeout: delete it, the next version refuses it"},
			[]string{"tipcache.yaml:2: http.request: no longer a setting, derived from chain.timeout: delete it; set chain.timeout: a request lasts for three times that, 15s at least"}},
		{"an answer of yes or no", "", []string{"TIPCACHE_HTTP_ALLOW_NO_CACHE=true"}, nil, []string{"TIPCACHE_HTTP_ALLOW_NO_CACHE: http.allow_no_cache: no longer a setting, always false: " +
			"delete it; have clients that need a certain block name it in X-Min-Block-Height, or X-Min-Evm-Block for collections"}},
	}
	for _, tt := range tests {
		var warnings []string
		s := config.Sources{File: writeFile(t, tt.file), Environ: tt.environ, Warn: func(w error) { warnings = append(warnings, w.Error()) }}
		if diff := cmp.Diff(tt.refusals, lines(t, s)); diff != "" {
			t.Errorf("%s, problems (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
			t.Errorf("%s, warnings (-want +got):\n%s", tt.name, diff)
		}
	}
}
