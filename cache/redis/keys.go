package redis

import "net/url"

// entryKey is where the entry of a key is. The namespace is escaped, so that it
// ends at the first colon: no chain's key can be read as another's.
func entryKey(namespace, key string) string {
	return "tipcache:1:{" + url.QueryEscape(namespace) + ":" + key + "}"
}

// leaseKey is where the lease of an entry is, in the same hash slot of a cluster.
func leaseKey(entry string) string { return entry + ":l" }

// channelOf is the channel for messages among the replicas of a namespace.
func channelOf(namespace string) string { return "tipcache:1:" + url.QueryEscape(namespace) }

// noteKey is the key of what is kept once for a chain, or a namespace. No entry and
// no lease has a key of this form.
func noteKey(kind, of string) string { return "tipcache:1:" + kind + ":{" + url.QueryEscape(of) + "}" }
