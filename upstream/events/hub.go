package events

import (
	"slices"
	"sync"

	"github.com/tipcache/tipcache/upstream/events/query"
)

// A hub knows the subscriptions. Those with the same query make a group, which is offered an event
// only if the event's values lead to it or its query names no value. The hub judges what costs
// little, and leaves the rest to the subscribers: a costly query delays nobody else.
type hub struct {
	mu      sync.Mutex
	groups  map[string]*group // by the identity of the query
	byValue map[equality]map[*group]struct{}
	others  map[*group]struct{} // without an equality
	tags    map[string]int      // how many groups have an equality with the tag
	wide    int                 // groups that votes or rounds may match
	number  uint64              // of the newest event
	budget  int                 // what the hub still judges of it itself, as query.Cost counts it
	changed chan struct{}       // has a message when the first or last subscription, or the first or last of wide, came or went
}

type equality struct{ tag, value string }

// A group is the subscriptions with one query.
type group struct {
	query   *query.Query
	exact   bool // every event that the values lead to matches
	wide    bool
	members map[*subscription]struct{}
	offered uint64 // number of the last event offered; values may lead to one event more than once
}

func newHub() *hub {
	return &hub{
		groups: map[string]*group{}, byValue: map[equality]map[*group]struct{}{}, others: map[*group]struct{}{},
		tags: map[string]int{}, changed: make(chan struct{}, 1),
	}
}

// demand says whether a client subscribes, and whether votes and rounds are wanted.
func (h *hub) demand() (some, wide bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups) > 0, h.wide > 0
}

func (h *hub) notify() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// add adds a subscription, unless it has ended meanwhile. first is called before it, if it is the
// only one.
func (h *hub) add(s *subscription, first func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.hasEnded() { // it ended before it could be removed here
		return
	}
	if len(h.groups) == 0 {
		first()
	}
	identity := s.query.String()
	g := h.groups[identity]
	if g == nil {
		g = &group{query: s.query, exact: s.query.IsEquality(), wide: isWide(s.query), members: map[*subscription]struct{}{}}
		h.groups[identity] = g
		h.enter(g)
	}
	g.members[s] = struct{}{}
}

func (h *hub) enter(g *group) {
	if len(h.groups) == 1 || g.wide && h.wide == 0 {
		h.notify()
	}
	if g.wide {
		h.wide++
	}
	tag, value, ok := g.query.Equality()
	if !ok {
		h.others[g] = struct{}{}
		return
	}
	at := equality{tag, value}
	if h.byValue[at] == nil {
		h.byValue[at] = map[*group]struct{}{}
	}
	h.byValue[at][g] = struct{}{}
	h.tags[tag]++
}

// remove takes a subscription away, if it is there.
func (h *hub) remove(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(s)
}

func (h *hub) removeLocked(s *subscription) {
	identity := s.query.String()
	g := h.groups[identity]
	if g == nil {
		return
	}
	if delete(g.members, s); len(g.members) == 0 {
		delete(h.groups, identity)
		h.leave(g)
	}
}

func (h *hub) leave(g *group) {
	if g.wide {
		h.wide--
	}
	if len(h.groups) == 0 || g.wide && h.wide == 0 {
		h.notify()
	}
	tag, value, ok := g.query.Equality()
	if !ok {
		delete(h.others, g)
		return
	}
	at := equality{tag, value}
	if delete(h.byValue[at], g); len(h.byValue[at]) == 0 {
		delete(h.byValue, at)
	}
	if h.tags[tag]--; h.tags[tag] == 0 {
		delete(h.tags, tag)
	}
}

// publish offers an event to the subscriptions that it may match, and returns their number.
func (h *hub) publish(e *Event) (offered int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	h.budget = maxJudged
	size := e.Tags.Size()
	for tag, values := range e.Tags {
		if h.tags[tag] == 0 {
			continue
		}
		for _, value := range values {
			for g := range h.byValue[equality{tag, value}] {
				offered += h.offer(g, e, size)
			}
		}
	}
	for g := range h.others {
		offered += h.offer(g, e, size)
	}
	return offered
}

// maxJudged is how much the hub judges of one event itself, which takes some 100 µs.
const maxJudged = 256 << 10

// offer offers an event, whose tags have a size, to the members of a group, unless it does not match.
func (h *hub) offer(g *group, e *Event, size int) int {
	if g.offered == h.number {
		return 0
	}
	g.offered = h.number
	var v *verdict
	if cost := g.query.Cost(size); !g.exact && cost > h.budget {
		v = &verdict{query: g.query, event: e}
	} else if !g.exact {
		h.budget -= cost
		if !g.query.Matches(e.Tags) {
			return 0
		}
	}
	offered := len(g.members)
	for s := range g.members {
		if !s.owner.put(s, e, v) {
			h.removeLocked(s)
		}
	}
	return offered
}

// A verdict says whether an event matches the query of a group. Its members share it. nil stands for
// a match.
type verdict struct {
	query   *query.Query
	event   *Event
	once    sync.Once
	matches bool
}

// judge reports whether the event matches. The first caller evaluates the query.
func (v *verdict) judge() bool {
	if v == nil {
		return true
	}
	v.once.Do(func() { v.matches = v.query.Matches(v.event.Tags) })
	return v.matches
}

// promised are the kinds of events that are made of a block.
var promised = []string{NewBlock, NewBlockHeader, NewBlockEvents, NewEvidence, Tx, ValidatorSetUpdates}

// others are further kinds, of which there may be more.
var others = []string{
	"NewRoundStep", "NewRound", "CompleteProposal", "ProposalBlockPart", "Vote", "ValidBlock", "Polka", "Lock", "Relock", "Unlock",
	"TimeoutPropose", "TimeoutWait",
}

// isWide says whether a query may match an event that is not made of a block: it has but its kind.
func isWide(q *query.Query) bool {
	if tag, kind, ok := q.Equality(); ok && tag == kindTag {
		return !slices.Contains(promised, kind)
	}
	return slices.ContainsFunc(others, func(kind string) bool { return q.Matches(query.Tags{kindTag: {kind}}) })
}
