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
	var serving []*endpoint
	for _, e := range added {
		i := slices.IndexFunc(removed, func(r *endpoint) bool { return r.configured.REST == e.configured.REST })
		if at := slices.Index(next, e); i < 0 && at < len(old) {
			i = slices.Index(removed, old[at]) // the address has changed
		}
		if i < 0 {
			continue
		}
		if before := removed[i].proven(); before != nil && !slices.Contains(serving, before) {
			serving = append(serving, before)
			e.before.Store(before)
			if before.configured.REST == e.configured.REST {
				e.update(func(v *view) { v.keys.form = before.snapshot().keys.form }) // until it has been tested
			}
			p.retiring.Go(func() { p.endHandOver(e) })
		}
	}
	for _, e := range removed {
		for ; e != nil && !slices.Contains(serving, e); e = e.before.Load() {
			rest = append(rest, e)
		}
	}
	return rest
}

// proven returns the endpoint whose servers have answered: e, the one that serves its requests until then, or nil.
func (e *endpoint) proven() *endpoint {
	if before := e.before.Load(); before != nil && !e.answersAll() {
		return before
	}
	if e.answers(Request{}) {
		return e
	}
	return nil
}

// endHandOver removes the endpoint with the previous configuration once e answers requests. That endpoint still has an earlier one if
// it began to answer just before e was added: endHandOver removes the earlier ones, too. If e is removed itself, its remover decides
// about all of them. A removed endpoint keeps its previous one, because a request may have chosen it shortly before.
func (p *Pool) endHandOver(e *endpoint) {
	answers := time.Now() // since when its REST server has answered
	for e.life.Err() == nil && !e.answersAll() && upstream.Sleep(p.life, 10*time.Millisecond) == nil {
		if !e.answers(Request{}) {
			answers = time.Now()
		} else if time.Since(answers) > retireTimeout { // its other servers do not answer
			break
		}
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if e.life.Err() != nil {
		return
	}
	for before := e.before.Swap(nil); before != nil && before.life.Err() == nil; before = before.before.Load() {
		p.remove(before)
	}
}

// answersAll reports whether all servers of the endpoint have answered.
func (e *endpoint) answersAll() bool {
	return e.answers(Request{}) && (e.comet == nil || e.answers(Request{Call: &Call{}})) && (e.grpc == nil || e.answers(Request{Invoke: &Invocation{}}))
}
