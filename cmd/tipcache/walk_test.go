package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A validatorPage is what a walk reads of a page.
type validatorPage struct {
	Msg struct {
		Validators []struct {
			Address string `json:"operator_address"`
		}
		Pagination struct {
			NextKey string `json:"next_key"`
		}
	}
}

func (p *validatorPage) addresses() (all []string) {
	for _, v := range p.Msg.Validators {
		all = append(all, v.Address)
	}
	return all
}

func (r *running) validators(url string, header ...string) (p validatorPage, height string) {
	r.t.Helper()
	got := r.get(url, header...)
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", url, got.status, got.body)
	}
	return p, got.height()
}

// TestPagesOfWalkAreOneSnapshot walks over a list that changes at every block, while
// blocks come between the pages.
func TestPagesOfWalkAreOneSnapshot(t *testing.T) {
	t.Parallel()
	const walks = 50
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1, Turnover: 5}), nil)
	sets := map[string]bool{}
	for walk := range walks {
		var seen []string
		of, key := "", ""
		for page := 0; page == 0 || key != ""; page++ {
			got, height := r.validators(r.base + "/staking/validators?pagination.limit=17&pagination.key=" + key)
			if page <= 1 { // a first page that still holds says a later block
				of = height
			}
			if height != of {
				t.Fatalf("walk %d: a page of block %s, the one before of %s", walk, height, of)
			}
			seen, key = append(seen, got.addresses()...), got.Msg.Pagination.NextKey
			r.devnet.Advance(1)
		}
		whole, _ := r.validators(r.devnet.NodeURL()+"/staking/validators?pagination.limit=1000", "X-Block-Height", of)
		if diff := cmp.Diff(whole.addresses(), seen); diff != "" {
			t.Fatalf("walk %d at block %s (-node +walked):\n%s", walk, of, diff)
		}
		slices.Sort(seen)
		sets[strconv.Itoa(len(seen))+seen[0]+seen[len(seen)-1]] = true
	}
	if len(sets) < 2 {
		t.Error("list did not change")
	}
}

// TestWalkContinuesOnNodeOfAnotherRelease walks while the nodes take turns to be away. One of them
// reads page keys raw and the other in base64.
func TestWalkContinuesOnNodeOfAnotherRelease(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	newer, err := d.AddNode()
	if err != nil {
		t.Fatal(err)
	}
	newer.SetBase64Keys(true)
	r := startRunning(t, d, func(c *config.Config) {
		c.Chain.Nodes, c.Chain.Comet = append(c.Chain.Nodes, newer.RESTURL()), append(c.Chain.Comet, newer.CometURL())
	})
	whole, _ := r.validators(d.NodeURL() + "/staking/validators?pagination.limit=1000")
	var seen []string
	of, key := "", ""
	for page := 0; page == 0 || key != ""; page++ {
		for i, n := range []*devnet.Node{d.Node(), newer} {
			fault := devnet.Fault{}
			if page%2 == i {
				fault.Outage = devnet.Refuse
			}
			must(t, n.SetFaults(fault, devnet.Fault{}))
		}
		got, height := r.validators(r.base + "/staking/validators?pagination.limit=9&pagination.key=" + key)
		if page == 0 {
			of = height
		}
		if height != of {
			t.Errorf("page %d is of block %s, want %s", page, height, of)
		}
		seen, key = append(seen, got.addresses()...), got.Msg.Pagination.NextKey
		d.Advance(1)
	}
	if diff := cmp.Diff(whole.addresses(), seen); diff != "" {
		t.Errorf("validators (-whole list +walked):\n%s", diff)
	}
}
