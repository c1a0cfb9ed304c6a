package proxy_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

// followed is a list service whose store counts its changes.
func followed(t *testing.T, policy cache.Policy, options ...func(*proxy.Options)) (s *listService, change func(to int64)) {
	var known atomic.Int64
	s = startList(t, listing.Options{
		Policy: policy,
		Progress: func() listing.Progress {
			return listing.Progress{Generation: known.Load(), Behind: 3500 * time.Millisecond}
		},
	}, options...)
	return s, func(to int64) {
		s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
			c := worldOfWomen()
			c.LicensesCount = to
			return collections.Page{Items: []collections.Collection{c}, Total: 1, Generation: to}, nil
		})
		known.Store(to)
	}
}

// aDay is a policy by which seconds make nothing old, so that it is no matter
// when a test runs.
var aDay = cache.Policy{Fresh: time.Hour, Stale: 1e6 * time.Hour, StaleIfError: 1e6 * time.Hour, Keep: 1e6 * time.Hour}

func TestAPageIsFreshWhileTheStoreDoesNotChange(t *testing.T) {
	s, change := followed(t, aDay)
	for generation := int64(1); generation <= 3; generation++ {
		change(generation)
		for range 5 {
			res, body := s.post(t, `{}`)
			if want := `"licensesCount":` + string(rune('0'+generation)) + ","; !strings.Contains(body, want) {
				t.Errorf("generation %d: %s", generation, body)
			}
			if got := res.Header.Get("X-Block-Height"); got != "" {
				t.Errorf("X-Block-Height: %s", got)
			}
		}
	}
	if got := s.store.calls.Load(); got != 3 {
		t.Errorf("the store was asked %d times for 3 generations", got)
	}
	if res, _ := s.post(t, `{}`); !strings.HasSuffix(res.Header.Get("Cache-Status"), `detail="memory behind=3s"`) {
		t.Errorf("Cache-Status: %s", res.Header.Get("Cache-Status"))
	}
}

func TestAnOutdatedPageOutlivesTheStore(t *testing.T) {
	s, change := followed(t, aDay)
	change(1)
	_, before := s.post(t, `{}`)
	change(2)
	s.store.fail(errSilent)
	res, after := s.post(t, `{}`)
	if after != before || !strings.Contains(res.Header.Get("Cache-Status"), "stale-if-error") {
		t.Errorf("%s %s", res.Header.Get("Cache-Status"), after)
	}
}

func TestAnUnchangedPageIsReadAnewForItsMetadata(t *testing.T) {
	s, change := followed(t, cache.Policy{Fresh: time.Second, Stale: time.Second, StaleIfError: time.Hour, Keep: time.Hour})
	change(1)
	s.post(t, `{}`)
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		if s.post(t, `{}`); s.store.calls.Load() > 1 {
			return
		}
	}
	t.Error("the store was asked once")
}

func TestANoCacheRequestDoesNotTrustTheGenerationKnown(t *testing.T) {
	s, change := followed(t, aDay, func(o *proxy.Options) { o.Web.AllowNoCache = true })
	change(1)
	s.post(t, `{}`)
	if s.post(t, `{}`, "Cache-Control", "no-cache"); s.store.calls.Load() != 2 {
		t.Errorf("the store was asked %d times", s.store.calls.Load())
	}
}
