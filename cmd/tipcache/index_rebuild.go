package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// rebuild counts all anew beside a store, which is served meanwhile, and has the
// store take it over once it has caught up. Interrupted, it goes on where it was.
func rebuild(ctx context.Context, store *collections.Store, o indexer.Options) error {
	beside, err := store.Beside(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	o.Store, o.Follow, o.Registerer = beside, false, nil
	x, err := indexer.New(o)
	if err == nil {
		o.Logger.Info("counting anew beside the store", "beside", beside.Name())
		err = beside.Lead(ctx, x.Run)
	}
	err = errors.Join(err, beside.Close())
	if errors.Is(err, indexer.ErrOtherChain) || errors.Is(err, indexer.ErrDiverged) {
		err = errors.Join(err, store.DropBeside(ctx), errors.New("what was counted beside the store is dropped, and the next rebuild begins anew"))
	}
	if err == nil {
		err = store.Adopt(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild: the store is as it was: %w", err)
	}
	o.Logger.Info("the store has taken over what was counted", "block", x.Status().Cursor.Block)
	return store.DropBeside(ctx)
}
