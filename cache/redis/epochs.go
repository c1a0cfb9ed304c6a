package redis

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

const (
	epochLife  = 30 * 24 * time.Hour // longer than any entry lives
	earlyEpoch = 24 * time.Hour

	// An anchor that was confirmed a moment ago is not confirmed again: replicas
	// hear of a block at the same time.
	momentAgo = 200 * time.Millisecond
)

// Agreement gives the epoch that is in force for a chain: the highest that any
// replica has told. An epoch that lies in the future is ignored.
func (s *Store) Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error) {
	l, err := s.amend(ctx, chainID, func(l *agreement) bool {
		behind := l.epoch < epoch
		if behind {
			l.begin(epoch)
		}
		return behind
	})
	if err != nil {
		return upstream.Agreement{}, err
	}
	return upstream.Agreement{Epoch: l.epoch, Anchors: l.byHeight(), Confirmed: l.sinceConfirmed()}, nil
}

// NextEpoch moves the chain from one epoch to another, unless another replica
// was faster, and gives the epoch that is in force then.
func (s *Store) NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error) {
	l, err := s.amend(ctx, chainID, func(l *agreement) bool {
		due := l.epoch <= from
		if due {
			l.begin(to)
		}
		return due
	})
	return l.epoch, err
}

// AddAnchor notes, or confirms, the hash of a block of an epoch.
func (s *Store) AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error {
	_, err := s.amend(ctx, chainID, func(l *agreement) bool { return l.epoch == epoch && l.anchor(height, hash) })
	return err
}

// amendments is how often an amendment is tried while other replicas are faster.
const amendments = 5

var errContended = errors.New("redis: other replicas changed the epoch meanwhile, time and again")

// amend reads what is stored of a chain, and stores it as changed, if change says
// so and no other replica has stored anything in between. Otherwise it begins anew.
func (s *Store) amend(ctx context.Context, chainID string, change func(*agreement) bool) (l agreement, err error) {
	at, stored := s.epochKey(chainID), false
	err = s.do(ctx, func(ctx context.Context) error {
		for try := 0; try < amendments && !stored; try++ {
			reply, err := readLedger.Run(ctx, s.rdb, []string{at}, maxLedger).Slice()
			if err != nil {
				return err
			}
			l, err = s.decodeAgreement(at, reply)
			if err != nil {
				s.unreadable(at, err)
			}
			if stored = !change(&l) && err == nil; stored {
				return nil
			}
			args := append([]any{maxLedger, l.version, epochLife.Milliseconds()}, s.encodeAgreement(at, &l)...)
			if stored, err = writeLedger.Run(ctx, s.rdb, []string{at}, args...).Bool(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !stored {
		err = errContended
	}
	return l, err
}

// epochKey is where the agreement of a chain is. Each seal key has an agreement of its own:
// replicas with different keys, as during an update, cannot read each other's
// agreements, and would overwrite them in turns.
func (s *Store) epochKey(chainID string) string { return noteKey(s.codec.named("epoch"), chainID) }
