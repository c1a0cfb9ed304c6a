package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A recording is a failed exchange with a real node. If Name begins with rpc_, the response is from CometBFT, as if its
// address were configured as a REST server.
type recording struct {
	Name   string `json:"name"`
	Want   string `json:"want"`   // reason of the answer, or kind of the error
	Status int    `json:"status"` // 0 means that the node closed the connection
	Type   string `json:"type"`
	Raw    string `json:"raw"`
}

func recordings(t testing.TB) (all []recording) {
	t.Helper()
	for line := range bytes.Lines(expect.Value(os.ReadFile("testdata/failures.jsonl"))(t)) {
		var r recording
		expect.NoError(t, json.Unmarshal(line, &r))
		all = append(all, r)
	}
	return all
}

func TestEveryRecordedFailureIsClassified(t *testing.T) {
	n := newFakeNode(t, 1)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + n.address}}})
	for _, r := range recordings(t) {
		t.Run(r.Name, func(t *testing.T) {
			n.change(func() {
				n.rest = func(w http.ResponseWriter, _ *http.Request) {
					if r.Status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.Header().Set("Content-Type", r.Type)
					w.WriteHeader(r.Status)
					_, _ = w.Write([]byte(r.Raw))
				}
			})
			answer, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
			if got := labelOf(answer, err); got != r.Want {
				t.Fatalf("label = %s (%+v, %v), want %s", got, answer, err, r.Want)
			}
			if err == nil && string(answer.Body) != r.Raw {
				t.Errorf("body = %q, want %q", answer.Body, r.Raw)
			}
		})
	}
}

func TestEveryStoryRowMatchesARecording(t *testing.T) {
	used := make([]bool, len(errorTexts))
	for _, r := range recordings(t) {
		var envelope struct{ Error string }
		if r.Status < http.StatusBadRequest || json.Unmarshal([]byte(r.Raw), &envelope) != nil {
			continue
		}
		if i := rowOf(storyREST, envelope.Error); i >= 0 {
			used[i] = true
		}
	}
	for i, ok := range used {
		if errorTexts[i].by&storyREST != 0 && !ok {
			t.Errorf("row %q has no recording", errorTexts[i].text)
		}
	}
}

func TestAnswersAreClassified(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   *Answer // nil means an error
	}{
		{"success", 200, `{"code":200,"msg":{},"error":""}`,
			&Answer{Status: 200, NodeStatus: 200, Reason: OK}},
		{"status differs from the code", 200, `{"code":7,"msg":{},"error":"odd"}`,
			&Answer{Status: 200, NodeStatus: 200, Reason: OK}},
		{"escaped text", 500, `{"code":500,"msg":null,"error":"cannot query with height \u003c 0"}`,
			&Answer{Status: 400, NodeStatus: 500, Reason: BadInput, Text: "cannot query with height < 0"}},
		{"unknown failure", 500, `{"code":500,"msg":null,"error":"disk full"}`,
			&Answer{Status: 502, NodeStatus: 500, Reason: Other, NodeWorks: true, Text: "disk full"}},
		{"encoding failure", 502, `{"code":502,"msg":null,"error":"json: unsupported value"}`,
			&Answer{Status: 502, NodeStatus: 502, Reason: Other, NodeWorks: true, Text: "json: unsupported value"}},
		{"missing path", 404, "404 page not found\n",
			&Answer{Status: 404, NodeStatus: 404, Reason: NotFound, Text: "the chain node has no such path"}},
		{"404 of a load balancer", 404, "<html>nginx</html>", nil},
		{"502 of a load balancer", 502, "<html>Bad Gateway</html>", nil},
		{"JSON of another server", 200, `{"jsonrpc":"2.0","id":-1,"result":{}}`, nil},
		{"envelope without msg", 200, `{"code":200,"error":""}`, nil},
		{"JSON cut off", 200, `{"code":200,"msg":{},"error":""`, nil},
		{"two values", 200, `{"code":200,"msg":{},"error":""}{}`, nil},
		{"deeply nested JSON", 200, `{"code":200,"error":"","msg":` + strings.Repeat("[", 8<<20), nil},
		{"empty body", 200, ``, nil},
	}
	n := newFakeNode(t, 1)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + n.address}}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n.change(func() {
				n.rest = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.body))
				}
			})
			got, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
			if tt.want == nil {
				wantKind(t, err, upstream.BadAnswer)
				expect.Equal(t, errors.Is(err, ErrForeign), tt.status < 500, "whether the error is ErrForeign")
				return
			}
			expect.NoError(t, err)
			tt.want.Type, tt.want.Body, tt.want.Unsettled = "application/json", []byte(tt.body), true // no height is known
			expect.NoDiff(t, got, tt.want, "answer")
		})
	}
}

func FuzzUnderstand(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(r.Status, []byte(r.Raw))
	}
	f.Add(200, []byte(`{"code":200,"msg":{},"error":""}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a, ok := readStory(&http.Response{StatusCode: status}, body, 0)
		if ok && a.Reason == OK && (status != http.StatusOK || a.Text != "" || !json.Valid(body)) {
			t.Errorf("status %d with %q is OK, want a failure", status, body)
		}
		if ok && a.Reason != OK && status < http.StatusBadRequest {
			t.Errorf("status %d with %q is %v, want OK or no answer", status, body, a.Reason)
		}
	})
}

func wantKind(t *testing.T, err error, kind upstream.Kind) *upstream.Error {
	t.Helper()
	got, ok := errors.AsType[*upstream.Error](err)
	if !ok || got.Kind != kind {
		t.Fatalf("error = %v, want kind %v", err, kind)
	}
	return got
}
