package metadata_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

func described(found map[string]json.RawMessage) int {
	n := 0
	for _, body := range found {
		if string(body) != "{}" {
			n++
		}
	}
	return n
}

const (
	hour = time.Hour
	day  = 24 * hour
)

func TestMetadataIsServedUntilItExpires(t *testing.T) {
	type answer struct {
		name     string // the batch that it was read in
		degraded bool
	}
	tests := map[string]struct {
		after time.Duration
		down  bool
		now   answer // the page after that time
		next  answer // the page after that one
		asked int    // batches by then
	}{
		"it is fresh for a day":                        {21 * hour, false, answer{"1", false}, answer{"1", false}, 1},
		"it is fresh for a day though all is down":     {21 * hour, true, answer{"1", false}, answer{"1", false}, 1},
		"then it is served and read again":             {27 * hour, false, answer{"1", false}, answer{"2", false}, 2},
		"until a week has passed":                      {6 * day, false, answer{"1", false}, answer{"2", false}, 2},
		"and served though it cannot be read":          {6 * day, true, answer{"1", false}, answer{"1", false}, 3},
		"after a week the page waits for it":           {8 * day, false, answer{"2", false}, answer{"2", false}, 2},
		"or has the old one if it cannot be read":      {8 * day, true, answer{"1", false}, answer{"1", false}, 3},
		"after a month that is a degraded page":        {34 * day, true, answer{"1", true}, answer{"1", true}, 3},
		"and a good one if it can be read":             {34 * day, false, answer{"2", false}, answer{"2", false}, 2},
		"even after years something beats nothing":     {5000 * day, true, answer{"1", true}, answer{"1", true}, 3},
		"a page of the same moment does not ask again": {0, false, answer{"1", false}, answer{"1", false}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &alchemy{}
				s := openAlchemy(t, provider, metadata.Options{})
				lookup(t, s, one)
				time.Sleep(test.after)
				if test.down {
					provider.fail(status(http.StatusBadGateway))
				}
				for _, want := range []answer{test.now, test.next} {
					var got answer
					got.name, got.degraded = lookup(t, s, one)
					if got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					synctest.Wait()
				}
				expect.Equal(t, len(provider.batches()), test.asked, "batches")
			})
		})
	}
}

func TestNoRecordHoldsForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: text(`[]`)}
		s := openAlchemy(t, provider, metadata.Options{})
		for _, step := range []struct {
			after    time.Duration
			asked    int
			degraded bool
			answer   http.HandlerFunc
		}{
			{0, 1, false, text(`[]`)},
			{8 * time.Minute, 1, false, nil},
			{4 * time.Minute, 2, false, text(`[]`)},
			{12 * time.Minute, 3, true, status(http.StatusBadGateway)},
		} {
			time.Sleep(step.after)
			provider.fail(step.answer)
			name, degraded := lookup(t, s, one)
			if asked := len(provider.batches()); name != "" || degraded != step.degraded || asked != step.asked {
				t.Errorf("%v later: %q, degraded %v, %d batches; want %+v", step.after, name, degraded, asked, step)
			}
		}
	})
}

func TestMetadataExpiriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		s := openAlchemy(t, provider, metadata.Options{})
		refreshed := func(after time.Duration) int {
			time.Sleep(after)
			before := len(provider.batches())
			s.Lookup(t.Context(), addresses(100))
			synctest.Wait()
			n := 0
			for _, batch := range provider.batches()[before:] {
				n += len(batch)
			}
			return n
		}
		if n := refreshed(0); n != 100 {
			t.Fatalf("%d contracts asked for", n)
		}
		early := refreshed(day*9/10 - time.Second)
		half := refreshed(day / 10)
		rest := refreshed(day/10 + 2*time.Second)
		if early != 0 || half < 30 || half > 70 || half+rest != 100 {
			t.Errorf("read again: %d early, %d after a day, %d late", early, half, rest)
		}
	})
}
