//go:build !race

package proxy_test

// raced reports whether the race detector is enabled.
const raced = false
