package events

import (
	"slices"
	"sync"

	"github.com/tipcache/tipcache/upstream/events/query"
)

// A hub knows the subscriptions. Those with the same query make a group, which is judged once for
// an event, and only if the event's values lead to it or its query names no value.
type hub struct {
	mu      sync.Mutex
	groups  map[string]*group // by the identity of the query
	byValue map[equality]map[*group]struct{}
	others  map[*group]struct{} // without an equality
	tags    map[string]int      // how many groups have an equality with the tag
	wide    int                 // groups that votes or rounds may match
	number  uint64              // of the newest event
	changed chan struct{}       // has a message when the first or last subscription, or the first or last of wide, came or went
}

type equality struct{ tag, value string }

// A group is the subscriptions with one query.
type group struct {
	query   *query.Query
	wide    bool
	members map[*subscription]struct{}
	judged  uint64 // the number of the last event, which values may lead to more than once
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

// add adds a subscription. first is called before it, if it is the only one.
func (h *hub) add(s *subscription, first func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.groups) == 0 {
		first()
	}
	identity := s.query.String()
	g := h.groups[identity]
	if g == nil {
		g = &group{query: s.query, wide: isWide(s.query), members: map[*subscription]struct{}{}}
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

// publish gives an event to the subscriptions that it matches, and says to how many.
func (h *hub) publish(e *Event) (given int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	for tag, values := range e.Tags {
		if h.tags[tag] == 0 {
			continue
		}
		for _, value := range values {
			for g := range h.byValue[equality{tag, value}] {
				given += h.judge(g, e)
			}
		}
	}
	for g := range h.others {
		given += h.judge(g, e)
	}
	return given
}

// judge gives an event to a group that it matches.
func (h *hub) judge(g *group, e *Event) int {
	if g.judged == h.number {
		return 0
	}
	if g.judged = h.number; !g.query.Matches(e.Tags) {
		return 0
	}
	given := len(g.members)
	for s := range g.members {
		if !s.owner.put(s, e) {
			h.removeLocked(s)
		}
	}
	return given
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
