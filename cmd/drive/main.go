// Command drive measures what tipcache promises: it runs several replicas of
// it against one simulated node and one real Redis, lets many clients poll a
// few keys, fails things in the middle if told to, and prints what the node
// was asked, how old the answers were and how long they took.
//
//	go run ./cmd/drive
//	go run ./cmd/drive -for 2m -stop-node 30s
//	go run ./cmd/drive -for 2m -stop-redis 30s
//	go run ./cmd/drive -for 1m -kill-replica
//	go run ./cmd/drive -for 1m -rolling
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// plan is what one run does.
type plan struct {
	replicas, clients, keys int
	length, poll, blockTime time.Duration
	nodeLatency             time.Duration
	stopNode, stopRedis     time.Duration // outage in the middle of the run; 0 none
	killReplica, rolling    bool
	check                   bool // fail when a promise was broken
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, parsePlan())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drive:", err)
		os.Exit(1)
	}
}

func parsePlan() plan {
	var p plan
	flag.IntVar(&p.replicas, "replicas", 3, "tipcache processes behind one Redis")
	flag.IntVar(&p.clients, "clients", 300, "clients, each on a connection of its own")
	flag.IntVar(&p.keys, "keys", 20, "distinct requests")
	flag.DurationVar(&p.length, "for", 2*time.Minute, "length of the run")
	flag.DurationVar(&p.poll, "poll", 200*time.Millisecond, "pause of a client between two requests")
	flag.DurationVar(&p.blockTime, "block-time", time.Second, "time between blocks")
	flag.DurationVar(&p.nodeLatency, "node-latency", 20*time.Millisecond, "added to every answer of the node")
	flag.DurationVar(&p.stopNode, "stop-node", 0, "refuse connections to the node for so long in the middle")
	flag.DurationVar(&p.stopRedis, "stop-redis", 0, "kill Redis for so long in the middle")
	flag.BoolVar(&p.killReplica, "kill-replica", false, "kill -9 one replica in the middle")
	flag.BoolVar(&p.rolling, "rolling", false, "restart the replicas one after another")
	flag.BoolVar(&p.check, "check", false, "exit with an error when a promise was broken")
	flag.Parse()
	return p
}

func run(ctx context.Context, p plan) error {
	bed, err := newTestbed(ctx, p)
	if err != nil {
		return err
	}
	defer bed.close()
	before, err := bed.usage(ctx)
	if err != nil {
		return err
	}
	m, err := newMeasurement(ctx, bed, p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.length)
	defer cancel()
	disturbed := bed.disturb(ctx, p, m)
	m.drive(ctx)
	if err := <-disturbed; err != nil {
		return err
	}
	time.Sleep(time.Second) // let the last flights end
	after, err := bed.usage(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	bed.close() // before a reader who has seen enough ends this program by leaving
	m.report(os.Stdout, before, after)
	if p.check {
		return m.broken()
	}
	return nil
}
