package config

import (
	"cmp"
	"reflect"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// A removedKey was a setting in the version before this one, and is a constant now, or part of
// another setting. For one version it may be set to that constant.
type removedKey struct {
	path     string
	constant any    // the value in force; of one that another setting decides now, its default
	advice   string // what to do in place of another value
}

func removedKeys() []removedKey {
	nodes, answers, shared, queries := node.Options{}.WithDefaults(), cache.Options{}.WithDefaults(), redis.Options{}.WithDefaults(), chain.Options{}.WithDefaults()
	ledgers, clients, public, streams := indexer.Options{}.WithDefaults(), evm.Options{}.WithDefaults(), web.Options{}.WithDefaults(), stream.Options{}.WithDefaults()
	pages, described, store := listing.Options{}.WithDefaults(), metadata.Options{}.WithDefaults(), collections.Options{}.WithDefaults()
	return []removedKey{
		{"chain.hedge", time.Duration(0), "another node is asked once one fails or exceeds chain.timeout, so lower that if it is too long"},
		{"http.allow_no_cache", false, "have clients that need a certain block name it in X-Min-Block-Height, or X-Min-Evm-Block for collections"},
		{"chain.max_page_limit", queries.MaxPageLimit, "have clients walk longer lists by next_key"},
		{"chain.min_height_wait", queries.MinHeightWait, "have clients ask again after a 504"},
		{"chain.max_post", Bytes(cosmos.DefaultMaxBody), "send larger transactions to a node"},
		{"chain.max_body", Bytes(nodes.MaxBody), "have clients ask for shorter pages"},
		{"chain.scans", nodes.Scans, "raise chain.in_flight where reads wait for scans"},
		{"chain.queue", nodes.Queue, "raise chain.in_flight, or add a node, where requests wait for their turn"},
		{"chain.block_interval", nodes.BlockInterval, "the time between blocks is learned from the first blocks"},
		{"chain.rollback_after", nodes.RollbackAfter, "nodes that name lower blocks for a shorter time are passed over, and a block of another hash ends the epoch at once"},
		{"cache.lease", shared.Lease, "lower chain.timeout where replicas wait too long for one that died"},
		{"cache.waiters", answers.MaxWaiters, "bound what clients may ask by http.max_connections, http.rate and collections.rate"},
		{"collections.timeout", store.Timeout, "have the store answer sooner; pages are served for 1h while it fails"},
		{"index.window", clients.Window, "how many blocks a client gives in one call is found out"},
		{"cache.patience", answers.Patience, "have clients that need a certain block name it in X-Min-Block-Height"},
		{"rpc.max_batch", rpc.MaxBatch, "have clients divide their batches"},
		{"rpc.subscriptions", socket.DefaultSubscriptions, "have clients open more connections"},
		{"index.ahead", ledgers.Ahead, "name more clients in index.evm where indexing is slow"},
		{"index.timeout", clients.Timeout, "less is asked for at once of a client that does not answer in time"},
		{"metadata.budget", described.Budget, "metadata that comes later is in the next answer"},
		{"metadata.timeout", described.Timeout, "metadata that does not come in time is asked for again"},
		{"metadata.batch", described.Batch, "less is asked for at once of a provider that refuses so many"},
		{"http.header", 5 * time.Second, "bound connections by http.client_connections"},
		{"http.idle", 2 * time.Minute, "idle connections are closed before that where http.max_connections are taken"},
		{"http.max_header", Bytes(public.MaxHeader), "have a proxy before this one drop headers that it does not read"},
		{"cache.read_ahead", proxy.DefaultReadAhead, "it takes what nodes have to spare, so lower chain.in_flight if that is too much"},
		{"collections.fresh", pages.Policy.Fresh, "a store that is indexed tells of its changes; others are read as often as that"},
		{"collections.stale", pages.Policy.Stale, "pages are served for 1h while the store fails"},
		{"http.long_poll", streams.LongPoll, "give proxies in front of this one a longer timeout"},
		{"http.max_url", public.MaxURL, "ask for fewer things at once"},
		{"http.immutable", true, "have browsers reload without their cache once the chain was reset"},
		{"grpc.web", true, "have a proxy in front of this one refuse the content types that begin with application/grpc-web"},
		{"classes.pinned", blocks.DefaultClasses().Pinned.Keep, "bound Redis by its maxmemory, with the policy allkeys-lru"},
		{"collections.connections", store.Connections, "run more replicas, or fewer"},
		{"collections.stale_if_error", pages.Policy.StaleIfError, "pages are served for 1h while the store fails"},
		{"index.poll", ledgers.Poll, "name a client of your own first in index.evm, whose requests cost nothing"},
	}
}

// mergedKeys are those whose values another setting decides now, by how it does.
func mergedKeys() map[string][]removedKey {
	const list = "write index.network: [CHAIN_ID, REGISTRY, LICENSING, DISPUTES]"
	const request = "set chain.timeout: a request lasts for three times that, 15s at least"
	answers, public := cache.Options{}.WithDefaults(), web.Options{}.WithDefaults()
	return map[string][]removedKey{
		"derived from chain.timeout": {
			{"cache.flight", answers.FlightTimeout, "raise chain.timeout: a read lasts for twice that, 10s at least"},
			{"http.request", public.RequestTimeout, request},
			{"http.drain", public.RequestTimeout + drainMargin, request + ", and the drain for 5s more"},
		},
		"part of log.access": {{"log.sample", 1.0, "write the share as log.access, 1e-9 for 0"}},
		"part of index.network": {
			{"metadata.network", "story-mainnet", "index.network names it: story-mainnet, story-aeneid, or the chain id of a network of your own"}, {"index.contracts", "", list},
			{"index.contracts.chain_id", int64(0), list}, {"index.contracts.registry", "", list},
			{"index.contracts.licensing", "", list}, {"index.contracts.disputes", "", list},
		},
	}
}

// A removedSetting holds what the sources say of a removed key.
type removedSetting struct {
	removedKey
	now   string // how another setting decides it; empty for a constant
	field reflect.Value
}

// removedSettings are the removed keys by path, each at its constant.
func removedSettings() map[string]removedSetting {
	all, byKey := map[string]removedSetting{}, mergedKeys()
	byKey[""] = removedKeys()
	for now, keys := range byKey {
		for _, k := range keys {
			field := reflect.New(reflect.TypeOf(k.constant)).Elem()
			field.Set(reflect.ValueOf(k.constant))
			all[k.path] = removedSetting{k, now, field}
		}
	}
	return all
}

// judge returns a warning for a removed key that is set to its constant, and for another
// value, or one that wrong says cannot be read, a problem.
func (s removedSetting) judge(wrong error) (warning, problem error) {
	now := cmp.Or(s.now, "always "+Key{Default: s.constant}.DefaultText())
	if wrong == nil && s.field.Interface() == s.constant {
		return Problem{Key: s.path, Text: "no longer a setting, " + now + ": delete it, the next version refuses it"}, nil
	}
	return nil, Problem{Key: s.path, Text: "no longer a setting, " + now + ": delete it; " + s.advice}
}
