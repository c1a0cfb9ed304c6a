package redis

import (
	"net/url"
	"strings"
)

// The number after tipcache: is the version of the format. Entries, leases and messages have version 2: the entries of version
// 1 have no mark for provisional ones, so replicas that use it must not read or replace those of version 2.
const (
	entriesBegin = "tipcache:2:{" // before the namespace and the key of an entry
	entriesEnd   = "}"
)

// entryKey returns the Redis key of an entry. The namespace is escaped, so that it ends at the first colon after the brace.
func entryKey(namespace, key string) string {
	return entriesBegin + url.QueryEscape(namespace) + ":" + key + entriesEnd
}

// splitEntryKey is the inverse of entryKey. It returns false for other keys.
func splitEntryKey(at string) (namespace, key string, ok bool) {
	inner, begins := strings.CutPrefix(at, entriesBegin)
	inner, ends := strings.CutSuffix(inner, entriesEnd)
	escaped, key, divided := strings.Cut(inner, ":")
	namespace, err := url.QueryUnescape(escaped)
	return namespace, key, begins && ends && divided && err == nil
}

// leaseKey returns the Redis key of an entry's lease, in the same hash slot.
func leaseKey(entry string) string { return entry + ":l" }

// channelOf returns the channel for messages among the replicas of a namespace.
func channelOf(namespace string) string { return "tipcache:2:" + url.QueryEscape(namespace) }
