package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// replica is a tipcache process, or a row of them at the same addresses.
type replica struct {
	url, admin string
	command    []string
	log        string // path of the file with what it writes
	cmd        *exec.Cmd

	ready  atomic.Bool // takes requests, as far as a load balancer knows
	killed atomic.Bool // requests to it may be lost
}

// noticed is how long a replica that was told to end still takes requests: ten
// times the pause between two looks of the load balancer.
const noticed = time.Second

func (b *testbed) newReplica(ctx context.Context, binary string, i int) (*replica, error) {
	public, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	return &replica{
		url: "http://127.0.0.1:" + public, admin: "http://127.0.0.1:" + admin,
		command: []string{binary, "serve", "--listen", "127.0.0.1:" + public, "--admin", "127.0.0.1:" + admin,
			"--node", b.devnet.NodeURL(), "--comet", b.devnet.CometURL(), "--redis", "redis://" + b.redis.Options().Addr,
			"--shape", "node", "--store", "sqlite::memory:", "--collections-auth", "none"},
		log: filepath.Join(b.dir, fmt.Sprintf("replica-%d.log", i)),
	}, nil
}

// start runs a process and returns when it is ready.
func (r *replica) start(ctx context.Context) error {
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r.cmd = exec.CommandContext(context.WithoutCancel(ctx), r.command[0], r.command[1:]...)
	r.cmd.Env = append(os.Environ(), "TIPCACHE_LOG_LEVEL=warn", "TIPCACHE_HTTP_DRAIN_DELAY="+noticed.String())
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return err
	}
	err = eventually(ctx, func() error { _, err := get(ctx, r.admin+"/readyz"); return err })
	r.ready.Store(err == nil)
	return err
}

// terminate asks the process to finish what it has begun and end.
func (r *replica) terminate() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
	}
}

// wait returns when the process has ended: nil if it did so in order.
func (r *replica) wait() error {
	if r.cmd == nil || r.cmd.Process == nil {
		return nil
	}
	return r.cmd.Wait()
}

func (r *replica) kill() {
	r.killed.Store(true)
	r.ready.Store(false)
	_ = r.cmd.Process.Kill()
}

// watch keeps ready true to the replica, as a load balancer's health check
// does: the loss of the node is no reason to send requests elsewhere.
func (r *replica) watch(ctx context.Context) {
	for sleep(ctx, noticed/10) {
		_, err := get(ctx, r.admin+"/readyz?exclude=node&exclude=store")
		r.ready.Store(err == nil && !r.killed.Load())
	}
}

// balance returns the replica for the next request of client i: its own, or
// the next one that takes requests.
func (b *testbed) balance(i int) *replica {
	for n := range b.replicas {
		if r := b.replicas[(i+n)%len(b.replicas)]; r.ready.Load() {
			return r
		}
	}
	return b.replicas[i%len(b.replicas)]
}
