package proxy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestRecordedAnswersAreServedInDocumentedShape(t *testing.T) {
	s := startChain(t, proxy.Options{})
	checked := map[string]int{}
	for _, r := range recordings() {
		if r.Status != 200 || documentedShape(r.Path) == nil || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.answerWith(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000) // so that the entry of another recording is not served
			got := s.get(t, r.target())
			if got.status != 200 {
				t.Fatalf("status = %d %s, want 200", got.status, got.body)
			}
			want := fields{"code": whole, "msg": documentedShape(r.Path), "error": matching("")}
			for _, v := range breaches("", want, decodeJSON(t, got.body)) {
				t.Error(v)
			}
			expect.NoDiff(t, lost(t, r, got.body), map[string]int{}, "what the node sent and the response lacks")
		})
		checked[addressInPath.ReplaceAllString(r.Path, "/{}")]++
	}
	for path := range documentedMsg {
		if checked[path] == 0 {
			t.Errorf("%s has no recording, want at least one", path)
		}
	}
}

func TestUndocumentedPathKeepsNodesShape(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for _, r := range recordings() {
		if r.Status != 200 || documentedShape(r.Path) != nil || r.Height != "" || refused(r.Name) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.answerWith(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(100_000)
			if got := s.get(t, r.target()); got.status != 200 || withoutNextKeys(got.body) != withoutNextKeys(r.Raw) {
				t.Errorf("response = %d %s, want 200 and the recorded answer, or a shape in documentedMsg if the row has a Msg", got.status, got.body)
			}
		})
	}
}

// refused reports whether the proxy refuses a recorded request that the node answers: one with an address of a wrong
// length or a malformed page key.
func refused(name string) bool {
	for _, part := range []string{"_long_", "_short", "_one_byte", "_key_ff", "_key_garbage", "_overflow", "_bad_percent", "limit_int64_max", "_semicolon"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

var nextKeyText = regexp.MustCompile(`"next_key":"[^"]+"`)

// withoutNextKeys replaces page keys, to which the proxy adds a height. walk_test.go tests them.
func withoutNextKeys(body string) string {
	return nextKeyText.ReplaceAllString(body, `"next_key":"."`)
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	expect.NoError(t, d.Decode(&v))
	return v
}

// lost counts the leaves of the node's answer that are missing in the response, by name and value. A leaf may move.
func lost(t *testing.T, r recording, body string) map[string]int {
	t.Helper()
	missing := map[string]int{}
	countLeaves(missing, "", decodeJSON(t, withoutNextKeys(r.Raw)), 1)
	countLeaves(missing, "", decodeJSON(t, withoutNextKeys(body)), -1)
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
	case nil: // an empty list
	default:
		text, _ := json.Marshal(v)
		into[name+"="+string(text)] += by
	}
}

func TestNodeShapeReturnsNodesBytes(t *testing.T) {
	s := startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}})
	for _, r := range recordings() {
		if r.Height != "" || strings.Contains(r.Name, "encoded_slash") || r.Status == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			s.chain.answerWith(func(node.Request) (*node.Answer, error) { return r.answer(), nil })
			s.chain.grow(1000)
			got := s.get(t, r.target())
			expect.Equal(t, got.status, r.Status, "status")
			expect.NoDiff(t, got.body, r.Raw, "body")
		})
	}
}

func TestNodeShapeHasErrorsOfTheNode(t *testing.T) {
	s := startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}})
	got := s.get(t, "/nowhere")
	got.expect(t, 404)
	expect.Equal(t, got.body, "404 page not found\n", "body")
	s.chain.failWith(&upstream.Error{Kind: upstream.Timeout, Msg: "too late"})
	s.get(t, anyPath).expectRefusal(t, 504, `{"code":504,"msg":{},"error":"too late"}`+"\n")
}
