package demo

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestPrintedCommandEndsFaultOfNode(t *testing.T) {
	body := regexp.MustCompile(`Repair it: .* -d '(.*)'`).FindStringSubmatch(devnetBanner)
	if body == nil {
		t.Fatal("line not found")
	}
	d, err := Start(devnet.Options{Interval: -1, Faults: devnet.Faults{Node: devnet.Fault{ErrorRate: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.ControlURL()+"/devnet/faults", strings.NewReader(body[1]))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := d.Faults(); got != (devnet.Faults{}) {
		t.Errorf("the faults are %+v", got)
	}
}

func TestDemoUsesTheSimulatedServices(t *testing.T) {
	d, err := Start(devnet.Options{Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	redisURL, stop, err := StartRedis()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	cfg := config.Default()
	Embed(&cfg, d, redisURL, "key")
	got := []string{cfg.Redis.URL, cfg.Chain.ID, cfg.Chain.Nodes[0], cfg.Chain.Comet[0], cfg.Metadata.Provider, cfg.Collections.Store}
	want := []string{redisURL, d.ChainID(), d.NodeURL(), d.CometURL(), "alchemy:" + d.MetadataURL() + "/nft/v3/demo", "sqlite::memory:"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
