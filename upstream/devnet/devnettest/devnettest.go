// Package devnettest runs simulated chains for tests.
package devnettest

import (
	"cmp"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// Start runs a simulated chain until the end of the test. No other process takes the ports of its servers during an outage.
func Start(t testing.TB, o devnet.Options) *devnet.Devnet {
	t.Helper()
	for _, addr := range []*string{&o.NodeAddr, &o.CometAddr, &o.GRPCAddr, &o.MetadataAddr, &o.EVMAddr} {
		*addr = cmp.Or(*addr, porttest.Address(t))
	}
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

// AddNode adds a node to a chain. It reserves the ports of the node, as Start does.
func AddNode(t testing.TB, d *devnet.Devnet) *devnet.Node {
	t.Helper()
	n, err := d.AddNode(porttest.Address(t), porttest.Address(t), porttest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
