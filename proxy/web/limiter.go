package web

import (
	"cmp"
	"context"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
)

// A Limiter applies a client's limits to what the client is sent after its first response, such as events of a stream.
type Limiter struct {
	Name string // of the client's streams in the queues of the nodes: its other requests have another name there

	admission *limits.Admission
	client    limits.Client
}

// Limiter returns the limiter of an admitted request's client, with the current keys and limits. It fails if the
// key is no longer valid, or an access rule denies one of the operations.
func (s *Stack) Limiter(r *Request, operations ...string) (*Limiter, error) {
	client, err := s.Admission.Renew(r.Request, r.Record.Client.Key.Name != "")
	for _, operation := range operations {
		err = cmp.Or(err, s.Admission.Denied(operation))
	}
	return &Limiter{"streams of " + r.Record.Client.Name(), s.Admission, client}, err
}

// Allows reports whether this process's buckets of the client's limits have room for one more request.
func (l *Limiter) Allows() bool { return l.admission.Delay(&l.client, time.Now()) == 0 }

// Spend takes one request from the client's limits and returns 0, or returns the time until the next.
func (l *Limiter) Spend(ctx context.Context) (wait time.Duration) {
	return l.admission.Spend(ctx, &l.client)
}
