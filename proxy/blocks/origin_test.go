package blocks_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestContentIsReusedForTheSameAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		status    int
		typ, body string
		lasts     bool
		source    uint64
		isNew     bool
	}{
		"the same answer":              {200, "text/plain", "old", true, cache.Lasting, false},
		"another body":                 {200, "text/plain", "new", true, cache.Lasting, true},
		"another status":               {404, "text/plain", "old", true, cache.Lasting, true},
		"another type":                 {200, "text/html", "old", true, cache.Lasting, true},
		"answers that do not last":     {200, "text/plain", "old", false, 0, true},
		"an answer that did not last":  {200, "text/plain", "old", true, 0, true},
		"an answer that does not last": {200, "text/plain", "old", false, cache.Lasting, true},
	} {
		before := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("old"), tt.source)}
		e := &cache.Entry{}
		isNew := blocks.SetContent(e, before, tt.status, tt.typ, []byte(tt.body), tt.lasts)
		if isNew != tt.isNew || (e.Content == before.Content) == tt.isNew || string(e.Body) != tt.body || (e.Source != 0) != tt.lasts {
			t.Errorf("%s: SetContent = %t with body %q, source %d; want %t, %q, lasting %t", name, isNew, e.Body, e.Source, tt.isNew, tt.body, tt.lasts)
		}
	}
}

// answerRead is a read with a fixed answer.
type answerRead struct {
	read
	answer node.Answer
}

func (a *answerRead) Ask(context.Context, *blocks.Read, node.Request, *cache.Entry) (*node.Answer, error) {
	answer := a.answer
	return &answer, nil
}

func TestEntryOutlastsAnswersOfNodesThatFail(t *testing.T) {
	for reason, want := range map[node.Reason][2]string{ // outcomes without and with an entry
		node.Other:        {"miss", "stale_error"},
		node.Pruned:       {"internal error", "stale_error"},
		node.FutureHeight: {"internal error", "stale_error"},
		node.NotFound:     {"miss", "miss"},
	} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			bad := node.Answer{Status: http.StatusInternalServerError, Reason: reason, Height: 110, Body: []byte("bad")}
			expect.Equal(t, blocks.Lasts(&bad), reason == node.NotFound, "an answer with reason %v lasts", reason)
			for i, first := range []node.Answer{bad, {Status: http.StatusOK, Height: 100, Body: []byte("good")}} {
				origin := &answerRead{read{d.nodes}, first}
				q := &blocks.Read{Key: "test/" + string(first.Body), Kind: d.kind, Source: origin}
				a, err := d.answer(t, q)
				if i == 1 {
					d.nodes.grow(10)
					origin.answer = bad
					a, err = d.answer(t, q)
				}
				got := "internal error"
				if err == nil {
					got = string(a.Outcome)
				}
				expect.Equal(t, got, want[i], "outcome of reason %v, with an entry: %t", reason, i == 1)
			}
		})
	}
}

func TestAnswerThatSpeaksOfTheNodeIsNotKept(t *testing.T) {
	for _, pinned := range []int64{0, 90} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			limit := node.Answer{Status: http.StatusInternalServerError, Reason: node.Refused, Unkept: true, Height: max(pinned, 100), Body: []byte("limit")}
			expect.Equal(t, blocks.Lasts(&limit), false, "Lasts")
			origin := &answerRead{read{d.nodes}, limit}
			q := func() *blocks.Read {
				return &blocks.Read{Key: "test/limit", Kind: d.kind, Source: origin, Heights: web.Heights{Pinned: pinned}}
			}
			for range 2 {
				a := expect.Value(d.answer(t, q()))(t)
				expect.NoDiff(t, []string{string(a.Outcome), string(a.Entry.Body)}, []string{"miss", "limit"}, "outcome and body at height %d", pinned)
			}
			origin.answer = node.Answer{Status: http.StatusOK, Height: max(pinned, 100), Body: []byte("good")}
			a := expect.Value(d.answer(t, q()))(t)
			expect.Equal(t, string(a.Entry.Body), "good", "body once the node answers")
			if pinned == 0 {
				d.nodes.grow(10)
				origin.answer = limit
				a = expect.Value(d.answer(t, q()))(t)
				expect.NoDiff(t, []string{string(a.Outcome), string(a.Entry.Body)}, []string{"stale_error", "good"}, "outcome and body with an older answer")
			}
		})
	}
}

func TestOnlyStateOutlastsFailures(t *testing.T) {
	for class, want := range map[blocks.Class]string{blocks.Params: "stale_error", blocks.Live: "stale_error", blocks.Unknown: ""} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			d.kind = d.Add(&blocks.Kind{Name: "other", Class: class})
			d.get(t, web.Heights{}, blocks.Snapshot{})
			d.nodes.grow(1000)
			d.nodes.fails = true
			a, _ := d.answer(t, d.query(web.Heights{}, blocks.Snapshot{})())
			got := ""
			if a.Entry != nil {
				got = string(a.Outcome)
			}
			expect.Equal(t, got, want, "outcome of class %s", class)
		})
	}
}

func TestForecastNamesTheBlockOfTheRead(t *testing.T) {
	for name, tt := range map[string]struct {
		hs     web.Heights
		walk   blocks.Snapshot
		class  string
		pinned int64
	}{
		"the newest block":           {class: "live"},
		"a height":                   {hs: web.Heights{Pinned: 90}, class: "pinned", pinned: 90},
		"a later page of a walk":     {walk: blocks.Snapshot{Height: 97, Epoch: 1}, class: "pinned", pinned: 97},
		"a walk of an earlier epoch": {walk: blocks.Snapshot{Height: 97}, class: "live"},
	} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			p, pinned, err := d.Forecast(r, d.query(tt.hs, tt.walk)(), web.Plan{Route: "pool"})
			if err != nil || p.Route != "pool" || p.Class != tt.class || pinned != tt.pinned || p.Query.Policy.Immutable != (pinned > 0) {
				t.Errorf("%s: Forecast = %+v at %d, %v; want class %s at %d", name, p, pinned, err, tt.class, tt.pinned)
			}
			if _, _, err := d.Forecast(r, d.query(web.Heights{Pinned: 101}, blocks.Snapshot{})(), p); err == nil {
				t.Error("Forecast of a future block returned no error")
			}
		})
	}
}

func TestTyposAreReportedAndKeepTheRequestOutOfTheLane(t *testing.T) {
	for _, typos := range []string{"", "heigth"} {
		withFrontend(t, func(t *testing.T, d *frontend) {
			w := httptest.NewRecorder()
			r := web.NewHTTPRequest(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			rec := &r.Record
			rec.LaneSlot, rec.Start = &lane{}, time.Now()
			q := d.query(web.Heights{}, blocks.Snapshot{})()
			q.Typos = typos
			expect.NoError(t, d.Serve(r, q))
			if got := w.Header().Get("X-Unknown-Parameters"); got != typos || w.Body.String() != "100" || (rec.LaneSlot == nil) != (typos != "") {
				t.Errorf("typos %q: header = %q, body = %s, lane slot %v", typos, got, w.Body, rec.LaneSlot)
			}
		})
	}
}
