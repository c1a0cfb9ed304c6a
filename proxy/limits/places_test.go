package limits_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
)

// waiting holds the waiting requests of each address.
type waiting struct {
	*limits.Places
	leavers map[string][]func() // end the wait of a request
}

// enter lets n requests of a client wait, and returns the first refusal.
func (w *waiting) enter(n int, address, key string) error {
	for range n {
		leave, err := w.Enter(&limits.Client{Address: netip.MustParseAddr(address), Key: limits.Key{Name: key}}, 3*time.Second)
		if err != nil {
			return err
		}
		w.leavers[address] = append(w.leavers[address], leave)
	}
	return nil
}

func (w *waiting) leave(address string) {
	last := len(w.leavers[address]) - 1
	w.leavers[address][last]()
	w.leavers[address] = w.leavers[address][:last]
}

const (
	all   = 1000 // maximum number of waiting requests of one API
	share = 50   // maximum of one client once more than half of them are in use
)

func TestClientIsLimitedToShareOnceHalfOfPlacesAreTaken(t *testing.T) {
	a := newAdmission(limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	w := &waiting{a.NewWaiters(), map[string][]func(){}}
	const tooMany = "429 after 3s: too many requests of this client wait for a block"
	step := func(what string, err error, want string) {
		t.Helper()
		if got := verdict(err); got != want {
			t.Fatalf("%s = %q, want %q", what, got, want)
		}
	}
	step("more than half of all places for one client", w.enter(all/2+1, "192.0.2.1", ""), "admitted")
	step("one more of that client", w.enter(1, "192.0.2.1", ""), tooMany)
	step("the share of a second client", w.enter(share, "192.0.2.2", ""), "admitted")
	step("one more of the second client", w.enter(1, "192.0.2.2", ""), tooMany)
	w.leave("192.0.2.2")
	step("another one after one left", w.enter(1, "192.0.2.2", ""), "admitted")
	step("one more while its share is in use", w.enter(1, "192.0.2.2", ""), tooMany)
	step("the share of a key", w.enter(share, "192.0.2.2", "one"), "admitted")
	step("one more of the key from another address", w.enter(1, "192.0.2.3", "one"), tooMany)
	step("more than a share from a trusted proxy", w.enter(2*share, "10.0.0.1", ""), "admitted")
	step("more than a share from this machine", w.enter(all-all/2-1-share-share-2*share, "127.0.0.1", ""), "admitted")
	step("beyond all places", w.enter(1, "127.0.0.1", ""), "503 after 3s: too many requests wait for a block")
	w.leave("127.0.0.1")
	step("another one after one of them left", w.enter(1, "192.0.2.4", ""), "admitted")
}
