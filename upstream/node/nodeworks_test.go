package node

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// After a failure with an unknown text, a probe finds out whether the node can read the height. It is sent until it succeeds once.
func TestFailureReportsWhetherTheNodeWorks(t *testing.T) {
	for name, tt := range map[string]struct {
		probe  func(w http.ResponseWriter)
		works  bool
		probes int64
	}{
		"it does":     {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"code":200,"msg":{},"error":""}`)) }, true, 1},
		"it does not": {func(w http.ResponseWriter) { refuse(w, "disk full") }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var probes atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == storyProbe {
					probes.Add(1)
					tt.probe(w)
					return
				}
				refuse(w, "secp256k1: invalid x coordinate")
			}))
			defer server.Close()
			p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL}}})
			for _, path := range []string{"/slashing/signing_infos/1", "/slashing/signing_infos/2"} {
				a, err := p.Fetch(t.Context(), Request{Path: path, Height: 7})
				if err != nil || a.Reason != Other || a.Status != http.StatusBadGateway || a.NodeWorks != tt.works {
					t.Errorf("Fetch = %+v, %v, want %v with status 502, NodeWorks %t", a, err, Other, tt.works)
				}
			}
			if n := probes.Load(); n != tt.probes {
				t.Errorf("%d probes, want %d", n, tt.probes)
			}
		})
	}
}
