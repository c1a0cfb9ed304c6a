package rig

import (
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// Path is a path of Story's interface in the dialect of the run: that of the same query of the Cosmos SDK.
func (r *Rig) Path(story string) string {
	if r.Dialect != devnet.Cosmos {
		return story
	}
	module, rest, _ := strings.Cut(story[1:], "/")
	return "/cosmos/" + module + "/v1beta1/" + rest
}

// Paths are several.
func (r *Rig) Paths(story ...string) []string {
	all := make([]string, len(story))
	for i, path := range story {
		all[i] = r.Path(path)
	}
	return all
}
