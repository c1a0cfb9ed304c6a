package rig

import (
	"context"
	"fmt"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Index starts a `tipcache index` of a simulated chain into a store, and returns the URL of
// its admin listener.
func (r *Rig) Index(ctx context.Context, d *devnet.Devnet, store string, env []string, flags ...string) (*Process, string, error) {
	admin := FreeAddr()
	argv := []string{r.Bin, "index", "--evm", d.EVMURL(), "--store", store, "--admin", admin}
	p, err := r.Start(ctx, "index", env, append(argv, flags...)...)
	return p, "http://" + admin, err
}

// Indexed is an error unless a store holds what the chain has come to.
func Indexed(ctx context.Context, d *devnet.Devnet, store string) error {
	s, err := drivers.Open(ctx, store, collections.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	type sum struct{ collections, assets, licenses, disputes int64 }
	var got, want sum
	for q := (collections.Query{Limit: collections.MaxLimit}); ; q.Offset += q.Limit {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range page.Items {
			got = sum{got.collections + 1, got.assets + c.AssetCount, got.licenses + c.LicensesCount, got.disputes + c.RaisedDisputeCount}
		}
		if len(page.Items) < q.Limit {
			break
		}
	}
	for c := range d.CollectionsAt(d.EVM().Height()) {
		want = sum{want.collections + 1, want.assets + c.AssetCount, want.licenses + c.LicensesCount, want.disputes + c.RaisedDisputeCount}
	}
	if got != want {
		return fmt.Errorf("the store holds %+v, the chain %+v", got, want)
	}
	return nil
}
