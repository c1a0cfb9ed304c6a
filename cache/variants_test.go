package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/expect"
)

var all = []codings.Coding{codings.Gzip, codings.Zstd, codings.Brotli}

// decoded undoes a coding.
func decoded(t *testing.T, coding codings.Coding, body []byte) string {
	t.Helper()
	var from io.Reader = bytes.NewReader(body)
	switch coding {
	case codings.Gzip:
		r, err := gzip.NewReader(from)
		expect.NoError(t, err)
		from = r
	case codings.Zstd:
		r, err := zstd.NewReader(from)
		expect.NoError(t, err)
		defer r.Close()
		from = r
	case codings.Brotli:
		from = brotli.NewReader(from)
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("%v: %v", coding, err)
	}
	return string(plain)
}

func TestEncodedBodiesAreCreatedOnceAndCounted(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page)).Entry.Content
	weigh := func() int { return metric(t, c, "memory_bytes") }
	expect.Eventually(t, "the entry weighs", func() bool { return weigh() > len(page) })
	weight := weigh()
	for i, coding := range all {
		first, as := c.Encoded("k", content, coding, false, false)
		if as != coding || decoded(t, coding, first) != string(page) {
			t.Errorf("Encoded in %s returned %s, which must be the same and decode to the body", codings.Names[coding], codings.Names[as])
		}
		weight += len(first)
		expect.Eventually(t, "what was made weighs", func() bool { return weigh() >= weight })
		weight = weigh()
		if again, _ := c.Encoded("k", content, coding, false, true); &again[0] != &first[0] {
			t.Errorf("%s was not kept", codings.Names[coding])
		}
		if made := metric(t, c, "encodings_total"); made != i+1 {
			t.Errorf("%d bodies were encoded, want %d", made, i+1)
		}
	}
	later := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 200}, func(_ context.Context, prev *cache.Entry) (*cache.Entry, error) {
		return prev.Confirm(200, time.Now()), nil
	})
	if _, as := c.Encoded("k", later.Entry.Content, codings.Gzip, false, false); as != codings.Gzip || metric(t, c, "encodings_total") != 3 {
		t.Error("derived content lost by the confirmation")
	}
	expect.Eventually(t, "it weighs after confirming, too", func() bool { return weigh() == weight })
}

// What takes long is made while its first callers have something else.
func TestBrotliOfALongBodyIsMadeInTheBackground(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, longPage(100))).Entry.Content
	if body, as := c.Encoded("k", content, codings.Brotli, false, false); as != codings.Identity || &body[0] != &content.Body[0] {
		t.Errorf("the first caller got %s, want the plain body", codings.Names[as])
	}
	expect.Eventually(t, "it is made", func() bool { return content.Encodings[codings.Brotli].Load() != nil })
	body, as := c.Encoded("k", content, codings.Brotli, false, false)
	if as != codings.Brotli || decoded(t, as, body) != string(content.Body) || metric(t, c, "encodings_total") != 1 {
		t.Errorf("the next caller got %s, and %d bodies were encoded; want br, 1", codings.Names[as], metric(t, c, "encodings_total"))
	}
	if quick, _ := c.Encoded("k", cache.NewContent(200, content.Type, "", content.Body, 1), codings.Brotli, true, false); len(quick) <= len(body) {
		t.Errorf("a caller that cannot wait got %d bytes, want more than the best, %d", len(quick), len(body))
	}
}

func TestBackgroundEncodingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{MaxBackground: 1})
		for round := range 3 {
			encoded := 0
			var contents []*cache.Content
			for i := range 4 {
				contents = append(contents, cache.NewContent(200, "application/json", "", longPage(int64(100+i)), 1))
				c.Encoded("k", contents[i], codings.Brotli, false, false)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for _, content := range contents {
				if content.Encodings[codings.Brotli].Load() != nil {
					encoded++
				}
			}
			if encoded != 1 {
				t.Errorf("round %d: %d of 4 bodies were encoded, want 1", round, encoded)
			}
		}
	})
}

// The answer of the caller for whom a body is encoded leaves first.
func TestBackgroundEncodingBeginsAfterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		content := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, longPage(100))).Entry.Content
		c.Encoded("k", content, codings.Brotli, false, false)
		synctest.Wait()
		if content.Encodings[codings.Brotli].Load() != nil {
			t.Error("encoded at once, want it encoded later")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if content.Encodings[codings.Brotli].Load() == nil {
			t.Error("not encoded after a second")
		}
	})
}

func TestFrequentBodyIsCompressedWellAtRefresh(t *testing.T) {
	for asks, want := range map[int]bool{1: false, 2: true} {
		c := newCache(t, cache.Options{EncodeAtOnce: true})
		ask := func(tip int64) *cache.Content {
			return mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: tip}, answer(tip, longPage(tip))).Entry.Content
		}
		c.Encoded("k", ask(100), codings.Brotli, true, false)
		for range asks - 1 {
			ask(100)
		}
		if again := ask(200).Encodings[codings.Brotli].Load() != nil; again != want {
			t.Errorf("requested %d times: encoded again: %t, want %t", asks, again, want)
		}
	}
}

// The coding that took long once is not made for ever, while others ask for the plain body alone.
func TestUnrequestedCodingIsNotRenewed(t *testing.T) {
	c := newCache(t, cache.Options{EncodeAtOnce: true})
	ask := func(tip int64) *cache.Content {
		return mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: tip}, answer(tip, longPage(tip))).Entry.Content
	}
	c.Encoded("k", ask(100), codings.Brotli, false, false)
	for block, want := range []int{1, 2, 2, 2} {
		for range 2 {
			ask(100 + 10*int64(block))
		}
		if made := metric(t, c, "encodings_total"); made != want {
			t.Errorf("%d bodies were encoded by block %d, want %d", made, block, want)
		}
	}
}

func longPage(block int64) []byte {
	var b bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&b, `{"block":%d,"index":%d},`, block, i*i)
	}
	return b.Bytes()
}

func TestIdentityCodingIsTheBody(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := cache.NewContent(200, "text/plain", "", []byte("x"), 0)
	if body, as := c.Encoded("k", content, codings.Identity, false, false); as != codings.Identity || string(body) != "x" || metric(t, c, "encodings_total") != 0 {
		t.Errorf("body %q in %s, %d encoded; want x in identity, 0", body, codings.Names[as], metric(t, c, "encodings_total"))
	}
}

func TestManyCallersHaveABodyEncodedOnce(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := cache.NewContent(200, "text/plain", "", bytes.Repeat(page, 20), 0)
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			coding, must := all[i%3], i%2 == 0
			body, as := c.Encoded("k", content, coding, must, false)
			if must && as != coding {
				t.Errorf("got %s, want %s, which the caller must have", codings.Names[as], codings.Names[coding])
			}
			if as == coding && decoded(t, coding, body) != string(content.Body) {
				t.Errorf("%s does not decode to the body", codings.Names[coding])
			}
		})
	}
	callers.Wait()
	if made := metric(t, c, "encodings_total"); made != 3 {
		t.Errorf("%d bodies were encoded, want 3", made)
	}
}

func TestDerivedContentIsCachedForAFewNames(t *testing.T) {
	now := time.Now()
	c := newCache(t, cache.Options{Now: func() time.Time { return now }})
	of := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, page)).Entry.Content
	plain := metric(t, c, "memory_bytes")
	calls := 0
	derive := func(name string) *cache.Content {
		return c.Derived("k", of, name, func(of *cache.Content, _ string) *cache.Content {
			calls++
			return cache.NewContent(of.Status, of.Type, of.Link, append([]byte(name), of.Body...), 0)
		})
	}
	for range 2 {
		for i := range 4 {
			name := fmt.Sprint("name", i)
			if got := derive(name); !strings.HasPrefix(string(got.Body), name) {
				t.Errorf("content = %.10s, want it to begin with %s", got.Body, name)
			}
		}
	}
	if calls != 4 {
		t.Errorf("derived %d times, want 4", calls)
	}
	expect.Eventually(t, "what was derived weighs", func() bool { return metric(t, c, "memory_bytes") > plain+4*len(page) })
	last := derive("one too many")
	if derive("one too many"); calls != 6 {
		t.Errorf("derived %d times, want one more at each call", calls-4)
	}
	if _, as := c.Encoded("k", last, codings.Gzip, false, false); as != codings.Identity {
		t.Error("body that is not cached was encoded")
	}
	if body, as := c.Encoded("k", last, codings.Gzip, true, false); as != codings.Gzip || !strings.HasPrefix(decoded(t, codings.Gzip, body), "one too many") {
		t.Error("body that must be encoded was not")
	}
	now = now.Add(time.Second)
	for _, name := range []string{"one too many", "one too many", "name1"} {
		derive(name)
	}
	if calls != 7 {
		t.Errorf("derived %d times, want one more, which takes the place of the oldest", calls-6)
	}
	if _, as := c.Encoded("k", derive("one too many"), codings.Gzip, false, false); as != codings.Gzip {
		t.Error("accepted body was not encoded")
	}
}

func TestDerivedContentOfOneNameIsShared(t *testing.T) {
	c := newCache(t, cache.Options{})
	of := cache.NewContent(200, "text/plain", "", page, 0)
	found := make([]*cache.Content, 100)
	var callers sync.WaitGroup
	for i := range found {
		callers.Go(func() {
			found[i] = c.Derived("k", of, fmt.Sprint(i%4), func(*cache.Content, string) *cache.Content {
				return cache.NewContent(200, "text/plain", "", []byte{byte(i % 4)}, 0)
			})
		})
	}
	callers.Wait()
	for i, got := range found {
		if got != found[i%4] || got.Body[0] != byte(i%4) {
			t.Errorf("caller %d got another one", i)
		}
	}
}

func TestEncodedHitAllocatesNothing(t *testing.T) {
	c := newCache(t, cache.Options{})
	of := cache.NewContent(200, "text/plain", "", page, 0)
	derive := func(of *cache.Content, _ string) *cache.Content {
		return cache.NewContent(200, "text/plain", "", of.Body, 0)
	}
	hit := func() { _, _ = c.Encoded("k", c.Derived("k", of, "name", derive), codings.Gzip, false, false) }
	hit()
	if n := testing.AllocsPerRun(1000, hit); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// What is kept weighs what the cache says it weighs.
func TestContentHasNoSpareCapacity(t *testing.T) {
	text := strings.Repeat("x", 1000)
	c := cache.NewContent(200, "text/plain", "", append(make([]byte, 0, 1500), text...), 0)
	if string(c.Body) != text || cap(c.Body) > 1200 {
		t.Errorf("%d bytes with capacity %d, want 1000 with at most 1200", len(c.Body), cap(c.Body))
	}
}
