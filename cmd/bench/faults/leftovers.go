package faults

import (
	"context"
	"time"
)

// resetBy is how many blocks a chain that was reset is below what it was.
const resetBy = 300

// leftovers are what Redis has of a chain that is reset while no replica runs.
var leftovers = fault{
	name: "replicas start on what a chain left that was reset",
	begin: func(ctx context.Context, b *bed) error {
		for i := range b.replicas {
			b.kill(i)
		}
		return b.fork(ctx, resetBy)
	},
	hold: time.Second,
	end: func(ctx context.Context, b *bed) error {
		for _, r := range b.replicas {
			if err := r.revive(ctx, r.Ready); err != nil {
				return err
			}
		}
		return nil
	},
}
