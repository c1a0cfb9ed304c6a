package limits_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
)

// waiting is a set of requests that wait, each of which can leave.
type waiting struct {
	*limits.Places
	left map[string][]func()
}

// enter has n requests of a client wait, and returns the first refusal.
func (w *waiting) enter(n int, address, tenant string) error {
	for range n {
		leave, err := w.Enter(&limits.Client{Address: netip.MustParseAddr(address), Key: limits.Key{Name: tenant}}, 3*time.Second)
		if err != nil {
			return err
		}
		w.left[address] = append(w.left[address], leave)
	}
	return nil
}

func (w *waiting) leave(address string) {
	last := len(w.left[address]) - 1
	w.left[address][last]()
	w.left[address] = w.left[address][:last]
}

const (
	all   = 1000 // requests of one interface that may wait
	share = 50   // of one client, once more than half of all wait
)

func TestClientIsLimitedToShareOnceHalfOfPlacesAreTaken(t *testing.T) {
	a := newAdmission(limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	w := &waiting{a.NewWaiters(), map[string][]func(){}}
	const tooMany = "429 after 3s: too many requests of this client wait for a block"
	step := func(what string, err error, want string) {
		t.Helper()
		if got := verdict(err); got != want {
			t.Fatalf("%s: got %q, want %q", what, got, want)
		}
	}
	step("half of the places for one client", w.enter(all/2+1, "192.0.2.1", ""), "admitted")
	step("one more for it", w.enter(1, "192.0.2.1", ""), tooMany)
	step("the share of another", w.enter(share, "192.0.2.2", ""), "admitted")
	step("one more for that", w.enter(1, "192.0.2.2", ""), tooMany)
	w.leave("192.0.2.2")
	step("its share again, after one left", w.enter(1, "192.0.2.2", ""), "admitted")
	step("one more, with the rest still there", w.enter(1, "192.0.2.2", ""), tooMany)
	step("a key has a share of its own, wherever it is used", w.enter(share, "192.0.2.2", "one"), "admitted")
	step("no more than that", w.enter(1, "192.0.2.3", "one"), tooMany)
	step("clients behind a trusted proxy have none", w.enter(2*share, "10.0.0.1", ""), "admitted")
	step("clients of this machine have none", w.enter(all-all/2-1-share-share-2*share, "127.0.0.1", ""), "admitted")
	step("beyond all places", w.enter(1, "127.0.0.1", ""), "503 after 3s: too many requests wait for a block")
	w.leave("127.0.0.1")
	step("the place of one that left", w.enter(1, "192.0.2.4", ""), "admitted")
}
