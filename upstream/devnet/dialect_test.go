package devnet_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/expect"
)

const pool = "/cosmos/staking/v1beta1/pool"

// sdk reads a path of the SDK at a height, unless it is "".
func sdk(t *testing.T, d *devnet.Devnet, path, height string) (*http.Response, string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, d.NodeURL()+path, nil))(t)
	if height != "" {
		r.Header.Set("X-Cosmos-Block-Height", height)
	}
	resp := expect.Value(client.Do(r))(t)
	defer resp.Body.Close()
	body := expect.Value(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

func TestCosmosNodeFollowsTheChain(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	resp, before := sdk(t, d, pool, "")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Cosmos-Block-Height") != "1000" {
		t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
	}
	d.Advance(1)
	if _, after := sdk(t, d, pool, ""); after == before {
		t.Errorf("stood still: %s", after)
	}
	if _, pinned := sdk(t, d, pool, "1000"); pinned != before {
		t.Errorf("1000 was %s, is %s", before, pinned)
	}
	expect.Equal(t, d.Stats().Node.Reads, 3, "counted reads")
	if resp, _ := sdk(t, d, "/staking/validators", ""); resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("a path of Story's is %d", resp.StatusCode)
	}
}

func TestRestartedCosmosNodeKnowsNoLatestBlock(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}))
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	if resp, body := sdk(t, d, pool, ""); resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "latest block height") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if resp, body := sdk(t, d, pool, "1000"); resp.StatusCode != http.StatusOK {
		t.Errorf("pinned: got %d %s", resp.StatusCode, body)
	}
	d.Advance(1)
	if resp, body := sdk(t, d, pool, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("after a block: got %d %s", resp.StatusCode, body)
	}
}

func TestRolledBackCosmosChainHasOtherBlocks(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	d.Advance(5)
	_, before := sdk(t, d, "/cosmos/mint/v1beta1/inflation", "1004")
	d.RollBack(3)
	if resp, _ := sdk(t, d, pool, "1004"); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("a height that was taken away is %d", resp.StatusCode)
	}
	d.Advance(3)
	if _, after := sdk(t, d, "/cosmos/mint/v1beta1/inflation", "1004"); after == before {
		t.Errorf("came back as %s", after)
	}
}

func TestUnknownDialectIsRefused(t *testing.T) {
	if _, err := devnet.New(devnet.Options{Dialect: "bitcoin"}); err == nil {
		t.Error("error = nil, want one")
	}
}

func TestDelegatorsAreThoseOfTheDialect(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1, Delegators: 30})
	all := d.Delegators()
	if len(all) < 30 {
		t.Fatalf("got %d delegators, want 30 at least", len(all))
	}
	if _, body := sdk(t, d, "/cosmos/distribution/v1beta1/delegators/"+all[7]+"/rewards", ""); !strings.Contains(body, cosmos.PopularValidator) {
		t.Errorf("%s has no rewards: %s", all[7], body)
	}
}
