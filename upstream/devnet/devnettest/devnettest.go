// Package devnettest runs simulated chains for tests.
package devnettest

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// Start runs a simulated chain until the end of the test.
func Start(t testing.TB, o devnet.Options) *devnet.Devnet {
	t.Helper()
	d, err := devnet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}
