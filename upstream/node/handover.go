package node

import (
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// handOver lets removed endpoints that have answered serve the requests of added ones with another configuration, until these
// answer. It returns the endpoints to remove now. next are the endpoints in their new order, and removed those that it lacks.
func (p *Pool) handOver(next, added, removed []*endpoint) (rest []*endpoint) {
	old := p.endpoints()
	for _, e := range added {
		i := slices.IndexFunc(removed, func(r *endpoint) bool { return r.configured.REST == e.configured.REST })
		if at := slices.Index(next, e); i < 0 && at < len(old) {
			i = slices.Index(removed, old[at]) // the address has changed
		}
		if i < 0 {
			continue
		}
		before := removed[i]
		if before.answers(Request{}) {
			removed = slices.Delete(removed, i, i+1)
		} else if before = before.before.Swap(nil); before == nil {
			continue
		}
		e.before.Store(before)
		p.retiring.Go(func() { p.endHandOver(e) })
	}
	return removed
}

// endHandOver removes the endpoint with the previous configuration once e answers requests, or is removed itself.
func (p *Pool) endHandOver(e *endpoint) {
	answers := time.Now() // since when its REST server has answered
	for e.life.Err() == nil && !e.answersAll() && upstream.Sleep(p.life, 10*time.Millisecond) == nil {
		if !e.answers(Request{}) {
			answers = time.Now()
		} else if time.Since(answers) > retireTimeout { // its other servers do not answer
			break
		}
	}
	if before := e.before.Swap(nil); before != nil {
		p.remove(before)
	}
}

// answersAll reports whether all servers of the endpoint have answered.
func (e *endpoint) answersAll() bool {
	return e.answers(Request{}) && (e.comet == nil || e.answers(Request{Call: &Call{}})) && (e.grpc == nil || e.answers(Request{Invoke: &Invocation{}}))
}
