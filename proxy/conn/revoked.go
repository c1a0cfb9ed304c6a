package conn

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/limits"
)

// Revocations ends connections and streams when the API key of their client is removed or an access rule denies their
// operation.
type Revocations struct {
	admission *limits.Admission
	log       *slog.Logger
	ended     prometheus.Counter

	mu   sync.Mutex
	open map[*revocable]struct{}
}

type revocable struct {
	from      *http.Request // opened the connection or stream
	keyed     bool          // requires a valid key
	operation func() string // operation for the access rules, or ""
	end       func(error)
}

// NewRevocations returns an empty Revocations.
func NewRevocations(admission *limits.Admission, log *slog.Logger, metrics prometheus.Registerer) *Revocations {
	return &Revocations{admission: admission, log: log, open: map[*revocable]struct{}{}, ended: promauto.With(metrics).NewCounter(prometheus.CounterOpts{
		Name: "tipcache_proxy_revoked_total", Help: "WebSockets and gRPC streams that ended because their API key was removed or an access rule denies them.",
	})}
}

// OnRevoked makes EndRevoked call end with the reason if the client's required key is no longer valid or an access rule
// denies the operation, until release is called. end must not block. OnRevoked returns an error if that is the case now.
func (v *Revocations) OnRevoked(from *http.Request, keyed bool, operation func() string, end func(error)) (release func(), err error) {
	k := &revocable{from, keyed, operation, end}
	release = func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, k)
	}
	v.mu.Lock()
	v.open[k] = struct{}{}
	v.mu.Unlock()
	if err = v.refusal(k); err != nil { // the rules have changed since the request was admitted
		release()
	}
	return release, err
}

// refusal returns the reason to end k, or nil.
func (v *Revocations) refusal(k *revocable) (err error) {
	if k.keyed {
		_, err = v.admission.Renew(k.from, true)
	}
	if operation := k.operation(); err == nil && operation != "" {
		err = v.admission.Denied(operation)
	}
	return err
}

// EndRevoked ends the connections and streams that are no longer allowed. Call it after keys or rules have changed.
func (v *Revocations) EndRevoked() {
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
