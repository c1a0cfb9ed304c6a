package stream

import (
	"errors"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// Memory reserved in addition to the texts, in bytes. A text that shares the bytes of a cache entry is reserved, too.
const (
	topicWeight  = 12 << 10 // a topic, its goroutine and rendered events
	answerWeight = 512
)

// errNoMemory is sent instead of an answer for which there is no memory.
var errNoMemory = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "streamed answers use all of the memory reserved for them", Expected: true}

// weight returns the bytes to reserve for a topic, whose key is stored twice.
func (s *source) weight() int { return topicWeight + 2*len(s.key) }

// reserve reserves the memory of an answer, which the caller then holds. replaced is the memory of the answer that the caller
// releases, in bytes. It fails with account.ErrShare or account.ErrFull.
func (e *event) reserve(memory *account.Hold, replaced int) error {
	if err := memory.Replace(e.weight(), replaced); err != nil {
		return err
	}
	e.memory = memory
	e.held.Store(1)
	return nil
}

func (e *event) weight() int { return cap(e.data) + answerWeight }

// hold keeps an answer until release. It returns false if the answer has been released by all holders. Other events can
// always be held.
func (e *event) hold() (ok bool) {
	for e.memory != nil {
		n := e.held.Load()
		if n == 0 {
			return false
		}
		if e.held.CompareAndSwap(n, n+1) {
			break
		}
	}
	return true
}

// release undoes hold or reserve. A nil event holds nothing.
func (e *event) release() {
	if e != nil && e.memory != nil && e.held.Add(-1) == 0 {
		e.memory.Close()
	}
}

// lastBytes returns the memory that release by the only holder would free, and 0 if there are other holders.
func (e *event) lastBytes() int {
	if e == nil || e.memory == nil || e.held.Load() != 1 {
		return 0
	}
	return int(e.memory.Bytes())
}

// bytes returns the memory of an answer.
func (e *event) bytes() int64 {
	if e == nil || e.memory == nil {
		return 0
	}
	return e.memory.Bytes()
}

// chargeTo counts the memory of an answer against the share of a follower's client.
func (e *event) chargeTo(f *follower) {
	if e != nil && e.memory != nil {
		e.memory.Move(f.client, f.isMany)
	}
}

// deflated returns the data as deflate blocks, which are kept for all renderings of an answer, or nil if there is no memory for
// them.
func (e *event) deflated() []byte {
	if e.memory == nil {
		return stored(nil, e.data)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compressed == nil {
		blocks := deflate(e.data)
		if e.memory.Take(cap(blocks)) != nil {
			return nil
		}
		e.compressed = blocks
	}
	return e.compressed
}

// reserve reserves the memory of a topic's new answer, which replaces another. It counts against the share of the payer, or of
// another client that follows the topic if the payer has used up its share. It returns errNoMemory if there is no memory.
func (ts *topics) reserve(t *topic, answer, replaced *event) error {
	ts.mu.Lock()
	payer := t.payer
	ts.mu.Unlock()
	err := answer.reserve(ts.open(payer), replaced.lastBytes())
	if errors.Is(err, account.ErrShare) {
		for _, f := range ts.otherClients(t, payer) {
			if err = answer.reserve(ts.open(f), 0); err == nil {
				ts.setPayer(t, f)
				break
			}
		}
	}
	if err != nil {
		return errNoMemory
	}
	return nil
}

// open returns an empty hold for memory that counts against the share of a follower's client.
func (ts *topics) open(f *follower) *account.Hold { return ts.memory.Open(f.client, f.isMany) }

// otherClients returns a follower of a topic for each client other than that of f.
func (ts *topics) otherClients(t *topic, f *follower) (others []*follower) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	seen := map[string]bool{f.client: true}
	for other := range t.subscribers {
		if !seen[other.client] {
			seen[other.client] = true
			others = append(others, other)
		}
	}
	return others
}

// setPayer makes f the payer of a topic, if it still follows the topic.
func (ts *topics) setPayer(t *topic, f *follower) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.subscribers[f] != nil {
		t.payer = f
	}
}

// settle counts the memory of a new answer against the share of the topic's payer, which may have changed meanwhile.
func (ts *topics) settle(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.charge()
}

// charge counts a topic's memory against the share of its payer. The caller must hold topics.mu.
func (t *topic) charge() {
	n := t.state.Load()
	t.memory.Move(t.payer.client, t.payer.isMany)
	n.answer.chargeTo(t.payer)
	n.past.chargeTo(t.payer)
}

// holders returns the streams and polls with the memory of their topics. The followers of a topic divide its memory.
func (ts *topics) holders() (all []account.Holder) {
	sums := map[*follower]int64{}
	ts.mu.Lock()
	for _, t := range ts.byKey {
		n := t.state.Load()
		each := (t.memory.Bytes() + n.answer.bytes() + n.past.bytes()) / int64(max(1, len(t.subscribers)))
		for f := range t.subscribers {
			sums[f] += each
		}
	}
	ts.mu.Unlock()
	for f, bytes := range sums {
		if f.ended.Load() {
			continue
		}
		h := account.Holder{Bytes: bytes, Close: f.end}
		if !f.isMany {
			h.Client = f.client
		}
		all = append(all, h)
	}
	return all
}
