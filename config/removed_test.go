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
