//go:build !race

package proxy_test

// raced tells that the race detector watches.
const raced = false
