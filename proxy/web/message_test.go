package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPanicInMessageIsReturnedAsError(t *testing.T) {
	s := New(Options{}, nil)
	err := s.Message(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/websocket", nil), "rpc block", func(*Request) (int, error) { panic("a defect") })
	if err == nil || !strings.Contains(err.Error(), "a defect") || failure.Of(err).Public != "internal error" {
		t.Errorf("Message = %v, want an internal error caused by a defect", err)
	}
}

// A slot counts the requests that the fast lane gets.
type slot struct{ requests int }

func (s *slot) Put(*http.Request, record.Head, *record.Record) { s.requests++ }

type replayer struct{}

func (replayer) Replay(*record.Record, *respond.Response) bool { return false }

func TestLaneGetsOnlyHitsFromMemory(t *testing.T) {
	for name, change := range map[string]func(*record.Record) error{
		"a hit":                func(*record.Record) error { return nil },
		"a miss":               func(rec *record.Record) error { rec.Outcome = "miss"; return nil },
		"a hit from Redis":     func(rec *record.Record) error { rec.Store = "redis"; return nil },
		"without replayer":     func(rec *record.Record) error { rec.Replayer = nil; return nil },
		"kept out of the lane": func(rec *record.Record) error { rec.KeepOutOfLane(); return nil },
		"a failure":            func(*record.Record) error { return failure.BadInput("bad") },
	} {
		lane, want := &slot{}, 0
		if name == "a hit" {
			want = 1
		}
		r := NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x.Y/Z", nil))
		rec := &r.Record
		rec.Route, rec.LaneSlot = "grpc state", lane
		_ = New(Options{}, nil).Call(r, func(*Request) (int, error) {
			rec.Outcome, rec.Store, rec.Replayer = "hit", "memory", replayer{}
			return 0, change(rec)
		})
		expect.Equal(t, lane.requests, want, "requests that the lane gets for %s", name)
	}
}
