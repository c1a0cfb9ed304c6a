package events

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// A hub dispatches events to subscriptions. Subscriptions with the same query form a group. A group whose query requires a tag's
// value is offered only events with this value. The hub evaluates cheap queries. Subscribers evaluate costly ones, so that they
// delay no other subscriber.
type hub struct {
	memory *account.Part // of subscriptions and unread events; nil has no limit
	log    *slog.Logger

	mu        sync.Mutex
	groups    map[string]*group                // by the identity of the query
	byValue   map[equality]map[*group]struct{} // by the value that the query requires
	consensus int                              // number of groups that consensus events may match
	members   int64                            // number of subscriptions
	number    uint64                           // of the newest event
	budget    int                              // what is left of maxHubCost for this event
	changed   chan struct{}                    // receives a message when the result of demand may have changed
}

// An equality is a tag and a value that a query requires. It is zero if the query requires no value.
type equality struct{ tag, value string }

// A group holds the subscriptions with the same query.
type group struct {
	query     *query.Query
	requires  equality
	exact     bool // every event found through the index matches
	consensus bool // consensus events may match
	members   map[*subscription]struct{}
	offered   uint64 // number of the last event offered; several values of an event can lead to the group
}

// demand reports whether there are subscriptions, and whether any of them may match consensus events.
func (h *hub) demand() (some, consensus bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups) > 0, h.consensus > 0
}

// add adds a subscription unless it has ended. If it is the only one, add calls onFirst before.
func (h *hub) add(s *subscription, onFirst func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.owner.mu.Lock()
	ended := s.ended
	s.owner.mu.Unlock()
	if ended {
		return
	}
	if len(h.groups) == 0 {
		onFirst()
	}
	identity := s.query.String()
	g := h.groups[identity]
	if g == nil {
		g = &group{query: s.query, consensus: matchesConsensus(s.query), members: map[*subscription]struct{}{}}
		g.requires.tag, g.requires.value = s.query.Equality()
		g.exact = g.requires.tag != "" && s.query.Conditions() == 1
		h.groups[identity] = g
		if h.byValue[g.requires] == nil {
			h.byValue[g.requires] = map[*group]struct{}{}
		}
		h.byValue[g.requires][g] = struct{}{}
		if g.consensus {
			h.consensus++
		}
		upstream.Wake(h.changed)
	}
	g.members[s] = struct{}{}
	s.group = g
	h.members++
}

// remove removes a subscription if it is present.
func (h *hub) remove(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(s)
}

func (h *hub) removeLocked(s *subscription) {
	g := s.group
	if g == nil {
		return
	}
	s.group = nil
	h.members--
	if delete(g.members, s); len(g.members) > 0 {
		return
	}
	delete(h.groups, s.query.String())
	if delete(h.byValue[g.requires], g); len(h.byValue[g.requires]) == 0 {
		delete(h.byValue, g.requires)
	}
	if g.consensus {
		h.consensus--
	}
	upstream.Wake(h.changed)
}

// publish offers an event to the subscriptions that may match it, and returns their number.
func (h *hub) publish(e *Event) (offered int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	h.budget = maxHubCost
	size := e.Tags.Size()
	e.weight = len(e.value) + 2*size + eventWeight // Data replaces value, and copies the tags
	if h.makeRoom(e) {
		defer e.release()
	}
	offer := func(requires equality) {
		for g := range h.byValue[requires] {
			offered += h.offer(g, e, size)
		}
	}
	for tag, values := range e.Tags {
		for _, value := range values {
			offer(equality{tag, value})
		}
	}
	offer(equality{})
	return offered
}

// makeRoom holds an event while it is published, and leaves memory for a message to each subscription. If the memory is used
// up, it cancels the subscriptions of the subscribers with the most unread events first, unless the event could never fit.
func (h *hub) makeRoom(e *Event) (held bool) {
	needed := int64(e.weight) + messageWeight*(1+h.members)
	if !h.memory.Fits(needed) {
		return false
	}
	for h.memory.Free(needed) < needed || !e.hold(h.memory) {
		heaviest := h.heaviest()
		if heaviest == nil {
			return false
		}
		for _, canceled := range heaviest.cancel() {
			h.removeLocked(canceled)
		}
	}
	return true
}

// heaviest returns the subscriber with the most unread events of the client with the most; nil if no client has any.
func (h *hub) heaviest() (heaviest *Subscriber) {
	sums, all := map[string]int64{}, h.subscribers()
	unread := make([]int64, len(all))
	for i, s := range all {
		if unread[i] = s.unreadBytes(); !s.IsMany {
			sums[s.Name] += unread[i]
		}
	}
	var mostOfClient, most int64
	for i, s := range all {
		ofClient := unread[i]
		if !s.IsMany {
			ofClient = sums[s.Name]
		}
		if unread[i] > 0 && cmp.Or(cmp.Compare(ofClient, mostOfClient), cmp.Compare(unread[i], most)) > 0 {
			heaviest, mostOfClient, most = s, ofClient, unread[i]
		}
	}
	return heaviest
}

// subscribers returns the subscribers with subscriptions. The caller must hold mu.
func (h *hub) subscribers() (all []*Subscriber) {
	seen := map[*Subscriber]bool{}
	for _, g := range h.groups {
		for s := range g.members {
			if !seen[s.owner] {
				seen[s.owner] = true
				all = append(all, s.owner)
			}
		}
	}
	return all
}

// holders returns the connections that can be closed, with the memory of their subscriptions and unread events.
func (h *hub) holders() (all []account.Holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subscribers() {
		if s.End == nil {
			continue
		}
		holder := account.Holder{Bytes: s.held.Bytes() + s.unread.Bytes(), Close: s.End}
		if !s.IsMany {
			holder.Client = s.Name
		}
		all = append(all, holder)
	}
	return all
}

// maxHubCost is the cost of the conditions that the hub evaluates for one event, as given by Tags.Size. It takes about 100 µs,
// and longer for times and for numbers with fractions.
const maxHubCost = 256 << 10

// offer offers an event to the members of a group and returns their number. It evaluates a cheap query itself, and
// returns 0 if the event does not match. Members get a costly query with the event. size is e.Tags.Size().
func (h *hub) offer(g *group, e *Event, size int) int {
	if g.offered == h.number {
		return 0
	}
	g.offered = h.number
	var matches func() bool
	if cost := g.query.Conditions() * size; !g.exact && cost > h.budget {
		matches = sync.OnceValue(func() (ok bool) {
			upstream.GuardInput(h.log, "event query", func() { ok = g.query.Matches(e.Tags) })
			return ok
		})
	} else if !g.exact {
		h.budget -= cost
		if !g.query.Matches(e.Tags) {
			return 0
		}
	}
	offered := len(g.members)
	for s := range g.members {
		if !s.owner.offer(s, e, matches) {
			h.removeLocked(s)
		}
	}
	return offered
}

// blockKinds are the kinds of block events.
var blockKinds = []string{NewBlock, NewBlockHeader, NewBlockEvents, NewEvidence, Tx, ValidatorSetUpdates}

// consensusKinds are the known kinds of consensus events.
var consensusKinds = []string{
	"NewRoundStep", "NewRound", "CompleteProposal", "ProposalBlockPart", "Vote", "ValidBlock", "Polka", "Lock", "Relock", "Unlock",
	"TimeoutPropose", "TimeoutWait",
}

// matchesConsensus reports whether a query may match a consensus event, whose only tag is its kind.
func matchesConsensus(q *query.Query) bool {
	if tag, kind := q.Equality(); tag == kindTag {
		return !slices.Contains(blockKinds, kind)
	}
	return slices.ContainsFunc(consensusKinds, func(kind string) bool { return q.Matches(query.Tags{kindTag: {kind}}) })
}
