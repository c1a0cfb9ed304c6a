package service

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestUnreachableNodeProvidesNoEvents(t *testing.T) {
	pool := expect.Value(node.New(node.Options{Dialect: node.Cosmos, Endpoints: []node.Endpoint{{REST: "http://127.0.0.1:1", Comet: "http://127.0.0.1:1"}}}))(t)
	defer pool.Close()
	for _, n := range eventNodes(pool) {
		if n.Fit() {
			t.Errorf("node %s is fit before its first response", n.Name)
		}
	}
}

func TestNoEventIsLostWhileNodesFail(t *testing.T) {
	d := devnettest.Start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 50 * time.Millisecond, StatusLead: -1})
	second := devnettest.AddNode(t, d)
	pool := expect.Value(node.New(node.Options{Dialect: node.Cosmos, BlockInterval: 50 * time.Millisecond, Endpoints: []node.Endpoint{
		{REST: d.NodeURL(), Comet: d.CometURL()}, {REST: second.RESTURL(), Comet: second.CometURL()},
	}}))(t)
	defer pool.Close()
	feed := events.New(events.Options{Heights: pool, Nodes: func() []events.Node { return eventNodes(pool) }, Logger: slog.New(slog.DiscardHandler)})
	run(t, pool.Run)
	run(t, feed.Run)
	expect.NoError(t, pool.WaitHeight(t.Context(), d.Height()+1))

	wake := make(chan struct{}, 1)
	s := feed.Subscriber(events.Client{Limit: 5, Wake: func() { wake <- struct{}{} }})
	defer s.Close()
	expect.NoError(t, s.Subscribe("tm.event EXISTS", nil))
	var next int64
	var kinds []string
	for blocks := 0; blocks < 60; {
		<-wake
		for {
			m, ok := s.Next(t.Context())
			if !ok {
				break
			}
			if m.Event.Height == 0 {
				continue // a consensus round
			}
			if m.Event.Kind == events.NewBlock {
				if want := "NewBlock NewBlockHeader NewBlockEvents Tx"; next > 0 && strings.Join(kinds, " ") != want {
					t.Fatalf("events of block %d = %s, want %s", next-1, kinds, want)
				}
				if next > 0 && m.Event.Height != next {
					t.Fatalf("block %d, want %d", m.Event.Height, next)
				}
				next, kinds = m.Event.Height+1, nil
				blocks++
				fail(t, d, second, blocks)
				if pool.Tip().Height < m.Event.Height {
					t.Errorf("event of block %d arrived before the block was readable", m.Event.Height)
				}
			}
			kinds = append(kinds, m.Event.Kind)
		}
	}
}

// fail stops one node and then the other, by the number of the block.
func fail(t *testing.T, d *devnet.Devnet, second *devnet.Node, block int) {
	t.Helper()
	var err error
	switch refuse := (devnet.Fault{Outage: devnet.Refuse}); block {
	case 10:
		err = d.Node().SetFaults(refuse, refuse)
	case 25:
		err = d.Node().SetFaults(devnet.Fault{}, devnet.Fault{})
	case 40:
		err = second.SetFaults(refuse, refuse)
	case 48:
		err = second.SetFaults(devnet.Fault{}, devnet.Fault{})
	case 50:
		err = d.Node().SetFaults(devnet.Fault{}, devnet.Fault{Stall: true})
	}
	expect.NoError(t, err)
}

// run calls f, and cancels its context when the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
