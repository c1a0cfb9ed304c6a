package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPrintedCommandEndsFaultOfNode(t *testing.T) {
	body := regexp.MustCompile(`Repair it: .* -d '(.*)'`).FindStringSubmatch(devnetBanner)
	if body == nil {
		t.Fatalf("banner = %s, want a command that repairs the node", devnetBanner)
	}
	d := expect.Value(Start(devnet.Options{Interval: -1, Faults: devnet.Faults{Node: devnet.Fault{ErrorRate: 1}}}))(t)
	defer func() { _ = d.Close() }()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, d.ControlURL()+"/devnet/faults", strings.NewReader(body[1])))(t)
	resp := expect.Value(http.DefaultClient.Do(r))(t)
	_ = resp.Body.Close()
	expect.Equal(t, d.Faults(), (devnet.Faults{}), "faults")
}

func TestDemoUsesTheSimulatedServices(t *testing.T) {
	d := expect.Value(Start(devnet.Options{Interval: -1}))(t)
	defer func() { _ = d.Close() }()
	redisURL, stop, err := StartRedis()
	expect.NoError(t, err)
	defer stop()
	cfg := config.Default()
	Embed(&cfg, d, redisURL, "key")
	got := []string{cfg.Redis.URL, cfg.Chain.ID, cfg.Chain.Nodes[0], cfg.Chain.Comet[0], cfg.Metadata.Provider, cfg.Collections.Store}
	want := []string{redisURL, d.ChainID(), d.NodeURL(), d.CometURL(), "alchemy:" + d.MetadataURL() + "/nft/v3/demo", "sqlite::memory:"}
	expect.NoDiff(t, got, want, "settings")
}

// onWrite is a buffer that calls then after each write.
type onWrite struct {
	strings.Builder
	then func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	defer w.then()
	return w.Builder.Write(p)
}

func TestPrintedCommandsNameReachableAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg, out := config.Default(), &onWrite{then: cancel}
	cfg.Listen, cfg.Admin = "0.0.0.0:0", "0.0.0.0:0"
	expect.NoError(t, Run(ctx, cfg, devnet.Options{}, out, io.Discard))
	for _, name := range []string{"public", "docs", "admin"} {
		if !regexp.MustCompile(name + ` +http://127\.0\.0\.1:[1-9]`).MatchString(out.String()) {
			t.Errorf("banner = %s, want the address of %s on 127.0.0.1", out.String(), name)
		}
	}
}

func TestDemoStartsWithNodeThatFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg, out := config.Default(), &onWrite{then: cancel}
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	expect.NoError(t, Run(ctx, cfg, devnet.Options{Faults: devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}}, out, io.Discard))
}

func TestFailedDumpIsReportedOnce(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	d := expect.Value(devnet.New(devnet.Options{}))(t)
	err := WriteCollections(d.Collections(), "/dev/full")
	if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "no space left") != 1 {
		t.Errorf("error = %v, want ENOSPC once", err)
	}
}
