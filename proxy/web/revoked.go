package web

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// revocable has the connections and streams that end when the API key of their client is removed.
type revocable struct {
	ended prometheus.Counter

	mu   sync.Mutex
	open map[*keyed]struct{}
}

// keyed is a connection or stream of a client with a key.
type keyed struct {
	from *http.Request // that opened it
	end  func()
}

func newRevocable(metrics prometheus.Registerer) revocable {
	return revocable{open: map[*keyed]struct{}{}, ended: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
		Name: "tipcache_proxy_revoked_total", Help: "WebSockets and gRPC streams that ended because their API key was removed.",
	})}
}

// OnRevoked has end called once the key of a request is not valid any more, until release is called. end must
// not block. The error says that the key is not valid now.
func (s *Stack) OnRevoked(from *http.Request, end func()) (release func(), err error) {
	k := &keyed{from, end}
	release = func() {
		s.revocable.mu.Lock()
		defer s.revocable.mu.Unlock()
		delete(s.revocable.open, k)
	}
	s.revocable.mu.Lock()
	s.revocable.open[k] = struct{}{}
	s.revocable.mu.Unlock()
	if _, err = s.Admission.Renew(from, true); err != nil { // removed since the request was admitted
		release()
	}
	return release, err
}

// endRevoked ends what was opened with keys that are not valid any more.
func (s *Stack) endRevoked() {
	var revoked []*keyed
	s.revocable.mu.Lock()
	for k := range s.revocable.open {
		if _, err := s.Admission.Renew(k.from, true); err != nil {
			revoked = append(revoked, k)
			delete(s.revocable.open, k)
		}
	}
	s.revocable.mu.Unlock()
	for _, k := range revoked {
		k.end()
	}
	if len(revoked) > 0 {
		s.revocable.ended.Add(float64(len(revoked)))
		s.o.Logger.Info("ended WebSockets and gRPC streams of removed API keys", "count", len(revoked))
	}
}
