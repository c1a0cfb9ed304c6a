package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.75: 3.25, 1: 4} {
		if got := quantile(xs, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := median([]float64{7}); got != 7 {
		t.Errorf("median of one: %v", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %v", got)
	}
	if diff := cmp.Diff([]float64{4, 1, 3, 2}, xs); diff != "" {
		t.Errorf("the values were moved (-want +got)\n%s", diff)
	}
}

func TestEachServerBeginsOnce(t *testing.T) {
	begins := map[int]int{}
	for round := range 5 {
		begins[rotated(5, round)[0]]++
	}
	if diff := cmp.Diff(map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, begins); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	for name, tt := range map[string]struct {
		markdown bool
		want     string
	}{
		"terminal": {false, "\nspeed\n  server  req/s\n  µ        1.5k\n  nginx     12k\n\n"},
		"GitHub":   {true, "\n**speed**\n\n| server | req/s |\n|---|---:|\n| µ      |  1.5k |\n| nginx  |   12k |\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			r := &report{w: &text, markdown: tt.markdown}
			r.table("speed", []string{"server", "req/s"}, [][]string{{"µ", "1.5k"}, {"nginx", "12k"}})
			if diff := cmp.Diff(tt.want, text.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSpellingsMeanTheSameInOneLength(t *testing.T) {
	for _, c := range peerCases("key") {
		if !c.vary {
			continue
		}
		var want any
		if err := json.Unmarshal([]byte(c.q.body), &want); err != nil {
			t.Fatal(err)
		}
		random, seen := rand.New(rand.NewPCG(1, 2)), map[string]bool{}
		for range 1000 {
			text := spelling(c.q.body, random)
			seen[text] = true
			var got any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q: (-want +got)\n%s", text, diff)
			}
			if len(text) != len(c.q.body)+blanks || strings.Contains(text, "\n") {
				t.Fatalf("%q: %d bytes, want %d on one line", text, len(text), len(c.q.body)+blanks)
			}
		}
		if len(seen) < 990 {
			t.Errorf("%s: only %d of 1000 spellings differ", c.name, len(seen))
		}
	}
}

func TestBareServersAnswerAlike(t *testing.T) {
	answers := []*bareAnswer{{Path: "/a", ETag: `"x"`, Body: map[string]bareBytes{
		"": {Header: http.Header{"Etag": {`"x"`}}, Body: []byte("plain")}, "gzip": {Body: []byte("zipped")}, "304": {},
	}}}
	for _, kind := range []string{bareNet, bareGin} {
		h, err := bareHandler(kind, answers, "")
		if err != nil {
			t.Fatal(err)
		}
		for header, want := range map[string]string{"": "200 plain", "Accept-Encoding: gzip": "200 zipped", `If-None-Match: "x"`: "304 "} {
			r := httptest.NewRequest(http.MethodGet, "/a", http.NoBody)
			if name, value, ok := strings.Cut(header, ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Result().Status[:4] + w.Body.String(); got != want {
				t.Errorf("%s, %q: %q, want %q", kind, header, got, want)
			}
		}
	}
}

func TestAnswersAreBehindFromTheBlockThatChangesThem(t *testing.T) {
	own := truth{first: 10, hashes: []uint64{1, 1, 2, 3}}
	for name, tt := range map[string]struct {
		hash      uint64
		tip, want int64
		ok        bool
	}{
		"the newest":               {3, 13, 13, true},
		"one that came on the way": {3, 12, 13, true},
		"the one before":           {2, 13, 12, true},
		"one of two blocks":        {1, 11, 11, true},
		"never the node's own":     {9, 13, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := own.until(tt.hash, tt.tip); got != tt.want || ok != tt.ok {
				t.Errorf("got %d, %v; want %d, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
	var l lateness
	sent := time.Unix(100, 0)
	l.add(13, sighting{tip: 13, sent: sent}, time.Time{})
	l.add(12, sighting{tip: 13, sent: sent}, sent.Add(-time.Second))
	l.add(11, sighting{tip: 13, sent: sent}, sent.Add(-3*time.Second))
	if l.answers != 3 || l.behind != 2 || l.oneBlock != 1 || !cmp.Equal(l.staleness, []float64{0, 1, 3}) {
		t.Errorf("got %+v", l)
	}
}

func TestTheNodeFailsOnlyForSomeKeys(t *testing.T) {
	for uri, want := range map[string]bool{
		"/staking/params": false, listKey(200): false, listKey(failingFrom): true, listKey(failingFrom+5) + "&pagination.count_total=true": true,
	} {
		if got := failingNode(uri); got != want {
			t.Errorf("%s: %v, want %v", uri, got, want)
		}
	}
}
