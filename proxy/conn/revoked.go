package conn

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/limits"
)

// Revocable has the connections and streams that end when the API key of their client is removed.
type Revocable struct {
	admission *limits.Admission
	log       *slog.Logger
	ended     prometheus.Counter

	mu   sync.Mutex
	open map[*keyed]struct{}
}

// keyed is a connection or stream of a client with a key.
type keyed struct {
	from *http.Request // that opened it
	end  func()
}

// NewRevocable registers its metric.
func NewRevocable(admission *limits.Admission, log *slog.Logger, metrics prometheus.Registerer) *Revocable {
	return &Revocable{admission: admission, log: log, open: map[*keyed]struct{}{}, ended: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
		Name: "tipcache_proxy_revoked_total", Help: "WebSockets and gRPC streams that ended because their API key was removed.",
	})}
}

// OnRevoked calls end once the key of a request is not valid any more, until release is called. end must
// not block. The error says that the key is not valid now.
func (v *Revocable) OnRevoked(from *http.Request, end func()) (release func(), err error) {
	k := &keyed{from, end}
	release = func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, k)
	}
	v.mu.Lock()
	v.open[k] = struct{}{}
	v.mu.Unlock()
	if _, err = v.admission.Renew(from, true); err != nil { // removed since the request was admitted
		release()
	}
	return release, err
}

// EndRevoked ends what was opened with keys that are not valid any more.
func (v *Revocable) EndRevoked() {
	var revoked []*keyed
	v.mu.Lock()
	for k := range v.open {
		if _, err := v.admission.Renew(k.from, true); err != nil {
			revoked = append(revoked, k)
			delete(v.open, k)
		}
	}
	v.mu.Unlock()
	for _, k := range revoked {
		k.end()
	}
	if len(revoked) > 0 {
		v.ended.Add(float64(len(revoked)))
		v.log.Info("ended WebSockets and gRPC streams of removed API keys", "count", len(revoked))
	}
}
