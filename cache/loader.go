package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// A Loader reads the answer to one query from the origin. It may be used after the request of the query has ended, and is safe
// for concurrent use.
type Loader interface {
	// Load reads the answer. ctx has the values of the caller that started the flight, but ends with the flight. If the content
	// is unchanged, Load returns how.Before.Confirm(...). Its error wraps [upstream.ErrBehind] if the origin is behind the tip
	// or the cached entry: an entry of any age is better then.
	Load(ctx context.Context, how How) (*Entry, error)

	// Expected returns how long a read that begins now is likely to take, including the wait for its turn; 0 if that is unknown.
	// In the background it waits for the reads of callers.
	Expected(background bool) time.Duration
}

// How says what a Loader knows when it reads.
type How struct {
	Before *Entry // newest known entry; nil for none
	For    Purpose
}

// A Purpose is the reason for a read of the origin.
type Purpose int

// The purposes, the most urgent first.
const (
	ForCaller     Purpose = iota // a caller waits for the answer
	ForBackground                // a stale entry is refreshed: the origin reads for callers first
	ForAhead                     // a block has arrived, and no caller has requested the key yet: without free capacity, Load returns [upstream.ErrYielded]
)

// ErrOverloaded means that too many callers wait in flights.
var ErrOverloaded = errors.New("cache: too many callers are waiting")

// errSlow is the failure if an old entry is served because the origin did not answer in time.
var errSlow = fmt.Errorf("cache: the origin did not answer within the wait budget: %w", context.DeadlineExceeded)

// errHeld ends a read ahead of a key that another replica is reading. For callers in the flight, it is [upstream.ErrYielded].
var errHeld = fmt.Errorf("%w: another replica has the lease", upstream.ErrYielded)

var errClosed = errors.New("cache: closed")
