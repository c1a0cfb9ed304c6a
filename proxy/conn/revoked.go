package conn

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/limits"
)

// Revocable has the connections and streams that end when the API key of their client is removed, or an access rule denies
// what they do.
type Revocable struct {
	admission *limits.Admission
	log       *slog.Logger
	ended     prometheus.Counter

	mu   sync.Mutex
	open map[*revocable]struct{}
}

// revocable is a connection or stream.
type revocable struct {
	from      *http.Request // that opened it
	keyed     bool          // it needs a valid key
	operation func() string // what it does, for the access rules; "" for nothing
	end       func(error)
}

// NewRevocable registers its metric.
func NewRevocable(admission *limits.Admission, log *slog.Logger, metrics prometheus.Registerer) *Revocable {
	return &Revocable{admission: admission, log: log, open: map[*revocable]struct{}{}, ended: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
		Name: "tipcache_proxy_revoked_total", Help: "WebSockets and gRPC streams that ended because their API key was removed or an access rule denies them.",
	})}
}

// OnRevoked calls end once the client of a request would no longer be admitted, until release is called: its key, if one
// is needed, is not valid, or an access rule denies the operation. end gets the reason and must not block. It returns an
// error if the client would not be admitted now.
func (v *Revocable) OnRevoked(from *http.Request, keyed bool, operation func() string, end func(error)) (release func(), err error) {
	k := &revocable{from, keyed, operation, end}
	release = func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, k)
	}
	v.mu.Lock()
	v.open[k] = struct{}{}
	v.mu.Unlock()
	if err = v.refusal(k); err != nil { // since the request was admitted
		release()
	}
	return release, err
}

// refusal returns the reason not to admit a client any more, nil for none.
func (v *Revocable) refusal(k *revocable) (err error) {
	if k.keyed {
		_, err = v.admission.Renew(k.from, true)
	}
	if operation := k.operation(); err == nil && operation != "" {
		err = v.admission.Denied(operation)
	}
	return err
}

// EndRevoked ends what would no longer be admitted.
func (v *Revocable) EndRevoked() {
	revoked := map[*revocable]error{}
	v.mu.Lock()
	for k := range v.open {
		if err := v.refusal(k); err != nil {
			revoked[k] = err
			delete(v.open, k)
		}
	}
	v.mu.Unlock()
	for k, err := range revoked {
		k.end(err)
	}
	if len(revoked) > 0 {
		v.ended.Add(float64(len(revoked)))
		v.log.Info("ended WebSockets and gRPC streams whose API key was removed or that an access rule denies", "count", len(revoked))
	}
}
