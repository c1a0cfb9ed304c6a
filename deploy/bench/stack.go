package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// devnetProc is a simulated chain in a process of its own.
type devnetProc struct {
	*process
	rest, comet, evm, provider, control string // URLs without a path
}

// still keeps the chain where it is: no block within any run.
const still = "--block-time=24h"

// stillIsWell makes a replica ready before such a chain, whose newest block is a day old.
const stillIsWell = "TIPCACHE_CHAIN_MAX_BLOCK_AGE=48h"

// devnet starts `tipcache devnet` and waits until it answers.
func (b *bench) devnet(ctx context.Context, flags ...string) (*devnetProc, error) {
	d := &devnetProc{}
	argv := []string{b.bin, "devnet"}
	for _, l := range []struct {
		flag string
		url  *string
	}{
		{"--node-listen", &d.rest}, {"--comet-listen", &d.comet}, {"--evm-listen", &d.evm},
		{"--metadata-listen", &d.provider}, {"--control-listen", &d.control},
	} {
		addr := freeAddr()
		*l.url = "http://" + addr
		argv = append(argv, l.flag, addr)
	}
	var err error
	if d.process, err = b.start(ctx, fmt.Sprintf("devnet-%s", port(d.rest)), append(argv, flags...)...); err != nil {
		return nil, err
	}
	return d, d.ready(ctx, d.control+"/devnet/stats")
}

// stats is what the devnet's servers were asked since the last reset.
func (d *devnetProc) stats(ctx context.Context) (devnet.Stats, error) {
	var s devnet.Stats
	text, err := get(ctx, d.control+"/devnet/stats?top=1000000")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(text), &s)
}

// reset begins to count anew.
func (d *devnetProc) reset(ctx context.Context) error {
	_, err := call(ctx, http.MethodDelete, d.control+"/devnet/stats", "")
	return err
}

// tipcacheProc is a serve in a process of its own.
type tipcacheProc struct {
	*process
	url, admin string // without a path
}

// tipcache starts `tipcache serve` before the devnet and waits until it is
// ready. All is as serve has it by default, the access log (to a file) and the
// metrics included, but for a store in memory that nobody may ask; flags come last.
func (b *bench) tipcache(ctx context.Context, d *devnetProc, flags ...string) (*tipcacheProc, error) {
	t, err := b.launch(ctx, d, flags...)
	if err != nil {
		return nil, err
	}
	return t, t.ready(ctx, t.admin+"/readyz")
}

// launch is tipcache without the wait.
func (b *bench) launch(ctx context.Context, d *devnetProc, flags ...string) (*tipcacheProc, error) {
	public, admin := freeAddr(), freeAddr()
	t := &tipcacheProc{url: "http://" + public, admin: "http://" + admin}
	argv := []string{
		b.bin, "serve", "--listen", public, "--admin", admin, "--node", d.rest, "--comet", d.comet,
		"--store", "sqlite::memory:", "--collections-auth", "closed",
	}
	var err error
	t.process, err = b.startWith(ctx, "tipcache-"+port(t.url), []string{stillIsWell}, append(argv, flags...)...)
	return t, err
}

func port(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// output runs a command of tipcache to its end.
func (b *bench) output(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.bin, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tipcache %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// get is call with GET and no body.
func get(ctx context.Context, url string) (string, error) {
	return call(ctx, http.MethodGet, url, "")
}

// call returns the body of an answer below 300.
func call(ctx context.Context, method, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, resp.Status, text)
	}
	return string(text), err
}
