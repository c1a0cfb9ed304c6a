package peers

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

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
	for _, kind := range []string{BareNet, BareGin} {
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

func TestAnAnswerIsBehindFromTheBlockThatChangesIt(t *testing.T) {
	var l lateness
	sent := time.Unix(100, 0)
	l.add(13, clients.Answer{Tip: 13, Sent: sent}, time.Time{})
	l.add(12, clients.Answer{Tip: 13, Sent: sent}, sent.Add(-time.Second))
	l.add(11, clients.Answer{Tip: 13, Sent: sent}, sent.Add(-3*time.Second))
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

// TestVisitorsAskWhatThereIs asks a simulated node for all that a wallet and an explorer ask.
func TestVisitorsAskWhatThereIs(t *testing.T) {
	d, err := devnet.New(devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, path := range slices.Concat(walletVisit(cosmos.WideDelegator), explorerVisit()) {
		if _, err := rig.Get(t.Context(), d.NodeURL()+pathAt(path, "900")); err != nil {
			t.Error(err)
		}
	}
}
