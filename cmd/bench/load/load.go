// Package load measures tipcache alone: what it costs to start, to hold much, to
// answer from Redis or from a large collection store, to index a chain, and to be
// used for a long time.
package load
