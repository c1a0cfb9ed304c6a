package proxy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestEveryRecordedAnswerBecomesADocumentedOne(t *testing.T) {
	s := startChain(t, proxy.Options{})
	checked := map[string]int{}
	for _, r := range recordings(t) {
		if r.Status != 200 || documentedShape(r.Path) == nil || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000) // past every other answer to the same request
			got := s.get(t, r.target())
			if got.status != 200 {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			want := fields{"code": whole, "msg": documentedShape(r.Path), "error": matching("")}
			for _, v := range breaches("", want, decoded(t, got.body)) {
				t.Error(v)
			}
			expect.NoDiff(t, lost(t, r, got.body), map[string]int{}, "what the node sent and the response lacks")
		})
		checked[addressInPath.ReplaceAllString(r.Path, "/{}")]++
	}
	for path := range documentedMsg {
		if checked[path] == 0 {
			t.Errorf("no recording of %s", path)
		}
	}
}

func TestUndocumentedPathKeepsNodesShape(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for _, r := range recordings(t) {
		if r.Status != 200 || documentedShape(r.Path) != nil || r.Height != "" || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.does(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000) // past every other answer to the same request
			if got := s.get(t, r.target()); got.status != 200 || anyNextKey(got.body) != anyNextKey(r.Raw) {
				t.Errorf("status %d: %s\nwant 200 and the recorded answer, or a shape in documentedMsg if the row has a Msg", got.status, got.body)
			}
		})
	}
}

// refused says that the node answers what we refuse to ask: addresses of wrong
// lengths and page keys of no form.
func refused(name string) bool {
	for _, part := range []string{"_long_", "_short", "_one_byte", "_key_ff", "_key_garbage", "_overflow", "_bad_percent", "limit_int64_max", "_semicolon"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

var nextKeyText = regexp.MustCompile(`"next_key":"[^"]+"`)

// anyNextKey makes all next page keys alike: ours say a height besides, and
// walk_test.go follows them.
func anyNextKey(body string) string { return nextKeyText.ReplaceAllString(body, `"next_key":"."`) }

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// lost lists the leaves of the node's answer, as name and text, that ours has
// fewer of. What moves to another place is not lost.
func lost(t *testing.T, r recording, body string) map[string]int {
	t.Helper()
	missing := map[string]int{}
	countLeaves(missing, "", decoded(t, anyNextKey(r.Raw)), 1)
	countLeaves(missing, "", decoded(t, anyNextKey(body)), -1)
	for leaf, n := range missing {
		paged := strings.HasPrefix(leaf, "next_key=") || strings.HasPrefix(leaf, "total=")
		if n <= 0 || paged && strings.HasSuffix(r.Path, "/period_delegations") { // an array has no place for its pagination
			delete(missing, leaf)
		}
	}
	return missing
}

func countLeaves(into map[string]int, name string, v any, by int) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			countLeaves(into, key, value, by)
		}
	case []any:
		for _, item := range v {
			countLeaves(into, name, item, by)
		}
	case nil: // a list of nothing
	default:
		text, _ := json.Marshal(v)
		into[name+"="+string(text)] += by
	}
}
