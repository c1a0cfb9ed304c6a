package node

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

func TestThatNoNodeTellsOfExecutionBlocksIsSaidOnlyByOneThatKnows(t *testing.T) {
	without, lost := newFakeNode(t, 100), newFakeNode(t, 100)
	without.change(func() {
		without.rest = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":-1,"result":{"block":{"header":{"height":"100"},"data":{"txs":[]}}}}`)
		}
	})
	p := run(t, Options{}, lost, without)
	lost.stop()
	if _, err := p.Executed(within(t, time.Minute), 100); !errors.Is(err, ErrNoExecution) {
		t.Errorf("error %v of blocks that carry none, want ErrNoExecution", err)
	}
	without.stop()
	eventually(t, "that CometBFT is lost", func() bool { return p.endpoints[0].look().CometDown && p.endpoints[1].look().CometDown })
	_, err := p.Executed(within(t, time.Minute), 100)
	wantKind(t, err, upstream.Unreachable)

	alone := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + without.address}}})
	if _, err := alone.Executed(within(t, time.Minute), 100); !errors.Is(err, ErrNoExecution) {
		t.Errorf("error %v without CometBFT, want ErrNoExecution", err)
	}
}
