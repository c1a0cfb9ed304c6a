package redis

import (
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
)

// entryKey is where the entry of a key is. The namespace is escaped, so that it
// ends at the first colon: no chain's key can be read as another's.
func entryKey(namespace, key string) string {
	return "tipcache:1:{" + url.QueryEscape(namespace) + ":" + key + "}"
}

// aroundKey is what stands around a key in the store, as entryKey puts it there.
func aroundKey(namespace string) (before, after string) {
	const end = "}"
	return strings.TrimSuffix(entryKey(namespace, ""), end), end
}

// leaseKey is where the lease of an entry is, in the same hash slot of a cluster.
func leaseKey(entry string) string { return entry + ":l" }

// channelOf is the channel for messages among the replicas of a namespace.
func channelOf(namespace string) string { return "tipcache:1:" + url.QueryEscape(namespace) }

// shards is how many channels there are in a Cluster for what is said of leases: its nodes share
// them out, where a message on another channel goes to all nodes.
const shards = 16

// shardOf is the channel for messages about a key.
func shardOf(namespace, key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return shardChannel(namespace, int(h.Sum32()%shards))
}

func shardChannel(namespace string, i int) string {
	return channelOf(namespace) + ":{" + strconv.Itoa(i) + "}"
}

// noteKey is the key of what is kept once for a chain, or a namespace. No entry and
// no lease has a key of this form.
func noteKey(kind, of string) string { return "tipcache:1:" + kind + ":{" + url.QueryEscape(of) + "}" }
