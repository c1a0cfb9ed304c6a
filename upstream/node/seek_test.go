package node

import (
	"context"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFirstAnswerAfterAnOutageHasAHeight(t *testing.T) {
	for name, comet := range map[string]bool{"from CometBFT": true, "from the REST server": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, stopped := newFakeNode(t, 3), newFakeNode(t, 3)
			stopped.stop()
			e := n.endpoint()
			if !comet {
				e.Comet = stopped.endpoint().Comet
			}
			n.stop()
			p := newPool(t, Options{Endpoints: []Endpoint{e}, BlockInterval: time.Minute})
			go func() { _ = p.Run(context.Background()) }()
			expect.Eventually(t, "a first attempt", func() bool { return !p.endpoints()[0].snapshot().Unseen })
			time.Sleep(300 * time.Millisecond) // the pauses between attempts become longer than a request takes
			n.start(n.address)
			expect.Equal(t, mustFetch(t, p, Request{Height: AtTip}).Height, 3, "height")
		})
	}
}
