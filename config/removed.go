package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// A removedKey was a setting in the version before this one, and is a constant now.
// For one version it may be set to that constant.
type removedKey struct {
	path     string
	constant any    // the value in force
	advice   string // what to do in place of another value
}

func removedKeys() []removedKey {
	nodes, answers, shared, queries := node.Options{}.WithDefaults(), cache.Options{}.WithDefaults(), redis.Options{}.WithDefaults(), chain.Options{}.WithDefaults()
	blocks, public := indexer.Options{}.WithDefaults(), web.Options{}.WithDefaults()
	described, store := metadata.Options{}.WithDefaults(), collections.Options{}.WithDefaults()
	return []removedKey{
		{"chain.hedge", time.Duration(0), "another node is asked once one fails or exceeds chain.timeout, so lower that if it is too long"},
		{"http.allow_no_cache", false, "have clients that need a certain block name it in X-Min-Block-Height, or X-Min-Evm-Block for collections"},
		{"chain.max_page_limit", queries.MaxPageLimit, "have clients walk longer lists by next_key"},
		{"chain.min_height_wait", queries.MinHeightWait, "have clients ask again after a 504, or lower http.request"},
		{"chain.max_post", Bytes(cosmos.DefaultMaxBody), "send larger transactions to a node"},
		{"chain.max_body", Bytes(nodes.MaxBody), "have clients ask for shorter pages"},
		{"chain.scans", nodes.Scans, "raise chain.in_flight where reads wait for scans"},
		{"chain.queue", nodes.Queue, "raise chain.in_flight, or add a node, where requests wait for their turn"},
		{"chain.block_interval", nodes.BlockInterval, "the time between blocks is learned from the first blocks"},
		{"chain.rollback_after", nodes.RollbackAfter, "nodes that name lower blocks for a shorter time are passed over, and a block of another hash ends the epoch at once"},
		{"cache.flight", answers.FlightTimeout, "raise chain.timeout: a read lasts for twice that, 10s at least"},
		{"cache.lease", shared.Lease, "lower chain.timeout where replicas wait too long for one that died"},
		{"cache.waiters", answers.MaxWaiters, "bound what clients may ask by http.max_connections, http.rate and collections.rate"},
		{"collections.timeout", store.Timeout, "have the store answer sooner, or raise collections.stale and stale_if_error, for which pages are served meanwhile"},
		{"index.window", blocks.Window, "how many blocks a client gives in one call is found out"},
		{"cache.patience", answers.Patience, "have clients that need a certain block name it in X-Min-Block-Height"},
		{"rpc.max_batch", rpc.MaxBatch, "have clients divide their batches"},
		{"rpc.subscriptions", socket.DefaultSubscriptions, "have clients open more connections"},
		{"index.ahead", blocks.Ahead, "name more clients in index.evm where indexing is slow"},
		{"index.timeout", blocks.Timeout, "less is asked for at once of a client that does not answer in time"},
		{"metadata.budget", described.Budget, "metadata that comes later is in the next answer"},
		{"metadata.timeout", described.Timeout, "metadata that does not come in time is asked for again"},
		{"metadata.batch", described.Batch, "less is asked for at once of a provider that refuses so many"},
		{"http.header", 5 * time.Second, "lower http.request, or bound connections by http.client_connections"},
		{"http.idle", 2 * time.Minute, "idle connections are closed before that where http.max_connections are taken"},
		{"http.max_header", Bytes(public.MaxHeader), "have a proxy before this one drop headers that it does not read"},
		{"http.max_url", public.MaxURL, "ask for fewer things at once"},
	}
}

// A removedSetting holds what the sources say of a removed key.
type removedSetting struct {
	removedKey
	field reflect.Value
}

// removedSettings are the removed keys by path, each at its constant.
func removedSettings() map[string]removedSetting {
	all := map[string]removedSetting{}
	for _, k := range removedKeys() {
		field := reflect.New(reflect.TypeOf(k.constant)).Elem()
		field.Set(reflect.ValueOf(k.constant))
		all[k.path] = removedSetting{k, field}
	}
	return all
}

// judge returns a warning for a removed key that is set to its constant, and for another
// value, or one that wrong says cannot be read, a problem.
func (s removedSetting) judge(wrong error) (warning, problem error) {
	always := fmt.Sprintf("no longer a setting, always %s: ", Key{Default: s.constant}.DefaultText())
	if wrong == nil && s.field.Interface() == s.constant {
		return Problem{Key: s.path, Text: always + "delete it, the next version refuses it"}, nil
	}
	return nil, Problem{Key: s.path, Text: always + "delete it; " + s.advice}
}
