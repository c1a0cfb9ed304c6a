package events

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// maxRead is how long a block and its results may take.
const maxRead = 10 * time.Second

// errGone is the error for a block that every node has dropped.
var errGone = errors.New("the block is no longer there")

// A read is a block that was asked for.
type read struct {
	height int64
	block  *Block
	err    error
}

// read asks the nodes for a block, one after the other.
func (f *Feed) read(ctx context.Context, height int64) read {
	r := read{height: height, err: errors.New("no node can be asked")}
	asked, gone := 0, 0
	for _, n := range f.o.Nodes {
		if !n.Fit() {
			continue
		}
		r.block, r.err = n.read(ctx, height)
		if r.err == nil && r.block.Height == height && r.block.ChainID == f.o.Heights.ChainID() {
			return r
		}
		if asked++; isGone(r.err) {
			gone++
		}
		r.err = cmp.Or(r.err, errStranger)
	}
	if asked > 0 && asked == gone {
		r.err = errGone
	}
	return r
}

// isGone says whether a node refuses a block because it was pruned.
func isGone(err error) bool {
	var refusal *comet.Refusal
	return errors.As(err, &refusal) && strings.Contains(refusal.Data, "lowest height is")
}

func (n Node) read(ctx context.Context, height int64) (*Block, error) {
	ctx, cancel := context.WithTimeout(ctx, maxRead)
	defer cancel()
	both, ctx := errgroup.WithContext(ctx)
	params := map[string]string{"height": strconv.FormatInt(height, 10)}
	var answers [2][]byte
	for i, method := range []string{"block", "block_results"} {
		both.Go(func() (err error) {
			answers[i], err = n.Call(ctx, method, params, MaxMessage)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return fromResults(answers[0], answers[1])
}
