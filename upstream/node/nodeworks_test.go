package node

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// After a failure with an unknown text, a probe finds out whether the node can read the height. It is sent until it succeeds once.
func TestFailureReportsWhetherTheNodeWorks(t *testing.T) {
	for name, tt := range map[string]struct {
		probe  func(w http.ResponseWriter)
		works  bool
		probes int64
	}{
		"probe succeeds": {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"code":200,"msg":{},"error":""}`)) }, true, 1},
		"probe fails":    {func(w http.ResponseWriter) { refuse(w, "disk full") }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var probes atomic.Int64
			p := restPool(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == storyProbe {
					probes.Add(1)
					tt.probe(w)
					return
				}
				refuse(w, "secp256k1: invalid x coordinate")
			})
			for _, path := range []string{"/slashing/signing_infos/1", "/slashing/signing_infos/2"} {
				a, err := p.Fetch(t.Context(), Request{Path: path, Height: 7})
				if err != nil || a.Reason != Other || a.Status != http.StatusBadGateway || a.NodeWorks != tt.works {
					t.Errorf("Fetch = %+v, %v, want %v with status 502, NodeWorks %t", a, err, Other, tt.works)
				}
			}
			expect.Equal(t, probes.Load(), tt.probes, "probes")
		})
	}
}
