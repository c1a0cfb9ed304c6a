package metadata_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	hour = time.Hour
	day  = 24 * hour
)

func TestMetadataIsServedUntilItExpires(t *testing.T) {
	type page struct {
		name     string // the batch that read the description
		degraded bool
	}
	tests := map[string]struct {
		after    time.Duration
		down     bool
		pages    [2]page
		requests int
	}{
		"fresh at once":                                {0, false, [2]page{{"1", false}, {"1", false}}, 1},
		"fresh for a day":                              {21 * hour, false, [2]page{{"1", false}, {"1", false}}, 1},
		"fresh for a day, provider down":               {21 * hour, true, [2]page{{"1", false}, {"1", false}}, 1},
		"served and read again after a day":            {27 * hour, false, [2]page{{"1", false}, {"2", false}}, 2},
		"served and read again within a week":          {6 * day, false, [2]page{{"1", false}, {"2", false}}, 2},
		"served within a week, provider down":          {6 * day, true, [2]page{{"1", false}, {"1", false}}, 3},
		"awaited after a week":                         {8 * day, false, [2]page{{"2", false}, {"2", false}}, 2},
		"served after a week, provider down":           {8 * day, true, [2]page{{"1", false}, {"1", false}}, 3},
		"awaited after a month":                        {34 * day, false, [2]page{{"2", false}, {"2", false}}, 2},
		"served degraded after a month, provider down": {34 * day, true, [2]page{{"1", true}, {"1", true}}, 3},
		"served degraded after years, provider down":   {5000 * day, true, [2]page{{"1", true}, {"1", true}}, 3},
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
				for _, want := range test.pages {
					wantName(t, s, one, want.name, want.degraded)
					settle()
				}
				expect.Equal(t, len(provider.batches()), test.requests, "requests")
			})
		})
	}
}

func TestRecordOfReplicaWhoseClockIsAheadIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		ahead    time.Duration
		body     string
		down     bool
		want     string
		degraded bool
	}{
		"half a minute ahead":             {30 * time.Second, `{"name":"0"}`, false, "0", false},
		"an hour ahead":                   {hour, `{"name":"0"}`, false, "1", false},
		"an hour ahead, without a record": {hour, "", false, "1", false},
		"an hour ahead, provider down":    {hour, `{"name":"0"}`, true, "0", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &alchemy{}
				if test.down {
					provider.fail(status(http.StatusBadGateway))
				}
				records := map[string]metadata.Record{one: {Body: []byte(test.body), ReadAt: time.Now().Add(test.ahead)}}
				s := openAlchemy(t, provider, metadata.Options{Store: &memory{records: records}})
				for range 2 {
					wantName(t, s, one, test.want, test.degraded)
				}
			})
		})
	}
}

func TestMissingRecordIsCachedForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: text(`[]`)}
		s := openAlchemy(t, provider, metadata.Options{})
		for _, step := range []struct {
			after    time.Duration
			requests int
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
			wantName(t, s, one, "", step.degraded)
			expect.Equal(t, len(provider.batches()), step.requests, "requests %v later", step.after)
		}
	})
}

func TestMetadataExpiriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		s := openAlchemy(t, provider, metadata.Options{})
		readAfter := func(after time.Duration) int {
			time.Sleep(after)
			before := len(provider.batches())
			s.Lookup(t.Context(), addresses(100))
			settle()
			n := 0
			for _, batch := range provider.batches()[before:] {
				n += len(batch)
			}
			return n
		}
		expect.Equal(t, readAfter(0), 100, "contracts read at once")
		early := readAfter(day*9/10 - time.Second)
		half := readAfter(day / 10)
		rest := readAfter(day/10 + 2*time.Second)
		if early != 0 || half < 30 || half > 70 || half+rest != 100 {
			t.Errorf("contracts read again = %d early, %d after a day, %d late; want 0, 30 to 70, and the rest of 100", early, half, rest)
		}
	})
}
