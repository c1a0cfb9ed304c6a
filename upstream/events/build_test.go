package events

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A recordedBlock holds a node's responses for a block and the events that it sent.
type recordedBlock struct {
	Block   string   `json:"block"`
	Results string   `json:"block_results"`
	Events  []string `json:"events"`
}

func recordedBlocks(t testing.TB) map[string]recordedBlock {
	t.Helper()
	all := map[string]recordedBlock{}
	files, _ := filepath.Glob("testdata/blocks/*.json")
	for _, file := range files {
		var r recordedBlock
		expect.NoError(t, json.Unmarshal(expect.Value(os.ReadFile(file))(t), &r))
		all[filepath.Base(file)] = r
	}
	if len(all) < 7 {
		t.Fatalf("found %d recorded blocks, want at least 7", len(all))
	}
	return all
}

// An announced event is the decoded content of its message. The order of its tags is random.
type announced struct {
	Type, Value string
	Tags        map[string][]string
}

func announcement(t testing.TB, message []byte) announced {
	t.Helper()
	var m struct {
		Result struct {
			Data struct {
				Type  string
				Value json.RawMessage
			}
			Events map[string][]string
		}
	}
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	return announced{m.Result.Data.Type, string(m.Result.Data.Value), m.Result.Events}
}

// build builds the block from the recorded responses.
func (r recordedBlock) build(t testing.TB) *Block {
	t.Helper()
	var block, results struct{ Result json.RawMessage }
	expect.NoError(t, errors.Join(json.Unmarshal([]byte(r.Block), &block), json.Unmarshal([]byte(r.Results), &results)))
	return expect.Value(blockFromResults(block.Result, results.Result))(t)
}

// blockEvents returns the recorded block events by kind, in the node's order if one subscription recorded them all.
func (r recordedBlock) blockEvents(t testing.TB) map[string][]announced {
	all := map[string][]announced{}
	for _, message := range r.Events {
		a := announcement(t, []byte(message))
		switch kind := a.Tags[kindTag][len(a.Tags[kindTag])-1]; kind {
		case NewBlock, NewBlockHeader, NewBlockEvents, NewEvidence, Tx, ValidatorSetUpdates:
			all[kind] = append(all[kind], a)
		}
	}
	return all
}

func TestBuiltEventsEqualTheNodes(t *testing.T) {
	for name, r := range recordedBlocks(t) {
		fromResults := r.build(t)
		want := r.blockEvents(t)
		fromEvent := expect.Value(blockFromEvent([]byte(want[NewBlock][0].Value)))(t)
		for source, b := range map[string]*Block{"results": fromResults, "event": fromEvent} {
			built, failures := b.events()
			if len(failures) > 0 {
				t.Errorf("%s: events that cannot be built = %v, want none", name, failures)
			}
			got := map[string][]announced{}
			for _, e := range built {
				got[e.Kind] = append(got[e.Kind], announcement(t, append([]byte(`{"result":{`), e.Data()...)))
			}
			expect.NoDiff(t, got, want, "events of %s built from its %s", name, source)
		}
	}
}

func TestBuiltEventsHaveTheNodesOrder(t *testing.T) {
	r := recordedBlocks(t)["74.json"] // recorded by a single subscription
	var want, got []string
	for _, message := range r.Events {
		a := announcement(t, []byte(message))
		if kind := a.Tags[kindTag][0]; len(r.blockEvents(t)[kind]) > 0 {
			want = append(want, a.Value)
		}
	}
	built, _ := r.build(t).events()
	for _, e := range built {
		got = append(got, string(e.value))
	}
	expect.NoDiff(t, got, want, "events in order")
}

// A chainOnly names the chain, and knows no blocks.
type chainOnly struct{ Heights }

func (chainOnly) ChainID() string { return "chain-1" }

func TestErrorSaysThatANodeReturnedAnotherBlock(t *testing.T) {
	results := map[string]string{
		"block":         `{"block_id":{"hash":"X"},"block":{"header":{"chain_id":"chain-1","height":"7"}}}`,
		"block_results": `{"height":"7","finalize_block_events":[]}`,
	}
	n := Node{
		Fit: func() bool { return true },
		Call: func(_ context.Context, method string, _ any, _ int64) (json.RawMessage, error) {
			return json.RawMessage(results[method]), nil
		},
	}
	f := New(Options{Nodes: func() []Node { return []Node{n} }, Heights: chainOnly{}})
	if r := f.read(t.Context(), 5, ""); r.err == nil || !strings.Contains(r.err.Error(), "node returned another block") {
		t.Errorf("error of a read that returned block 7 instead of 5 = %v", r.err)
	}
	expect.NoError(t, f.read(t.Context(), 7, "").err)
}

func TestDataIsValidJSONForEveryBlock(t *testing.T) {
	block := `{"block_id":{"hash":"X"},"block":{"header":{"height":"5"},"data":{"txs":["AA\n=="]}}}`
	b := expect.Value(blockFromResults([]byte(block), []byte(`{"height":"5","finalize_block_events":[],"txs_results":[{"\"a\"":1,"\u0000":2}]}`)))(t)
	built, _ := b.events()
	for _, e := range built {
		if data := append([]byte("{"), e.Data()[:len(e.Data())-1]...); !json.Valid(data) {
			t.Errorf("data of %s is not JSON: %s", e.Kind, data)
		}
	}
	expect.Equal(t, len(built), 4, "events")
}
