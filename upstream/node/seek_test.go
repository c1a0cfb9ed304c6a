package node

import (
	"context"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFirstAnswerAfterAnOutageHasAHeight(t *testing.T) {
	for name, comet := range map[string]bool{"which CometBFT tells": true, "which the REST server tells": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, lost := newFakeNode(t, 3), newFakeNode(t, 3)
			lost.stop()
			e := n.endpoint()
			if !comet {
				e.Comet = lost.endpoint().Comet
			}
			n.stop()
			p := newPool(t, Options{Endpoints: []Endpoint{e}, BlockInterval: time.Minute})
			go func() { _ = p.Run(context.Background()) }()
			expect.Eventually(t, "that it was looked for", func() bool { return !p.endpoints()[0].snapshot().Unseen })
			time.Sleep(300 * time.Millisecond) // the pauses between two looks become longer than a request takes
			n.start(n.address)
			if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 3 {
				t.Errorf("the answer is of block %d, want 3", a.Height)
			}
		})
	}
}
