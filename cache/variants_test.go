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
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/expect"
)

var allCodings = []codings.Coding{codings.Gzip, codings.Zstd, codings.Brotli}

func decode(t *testing.T, coding codings.Coding, body []byte) string {
	t.Helper()
	var from io.Reader = bytes.NewReader(body)
	switch coding {
	case codings.Gzip:
		r := expect.Value(gzip.NewReader(from))(t)
		from = r
	case codings.Zstd:
		r := expect.Value(zstd.NewReader(from))(t)
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
	weight := func() int { return metric(t, c, "memory_bytes") }
	expect.Eventually(t, "memory_bytes includes the entry", func() bool { return weight() > len(page) })
	before := weight()
	for i, coding := range allCodings {
		first, as := c.Encoded("k", content, coding, false, false)
		if as != coding || decode(t, coding, first) != string(page) {
			t.Errorf("Encoded in %s returned %s, which must be the same and decode to the body", codings.Names[coding], codings.Names[as])
		}
		expect.EventuallyAtLeast(t, "memory_bytes includes the encoded body", weight, before+len(first))
		before = weight()
		if again, _ := c.Encoded("k", content, coding, false, true); &again[0] != &first[0] {
			t.Errorf("second Encoded in %s returned another body, want the cached one", codings.Names[coding])
		}
		expect.Equal(t, metric(t, c, "encodings_total"), i+1, "encodings_total")
	}
	later := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 200}, func(_ context.Context, prev *cache.Entry) (*cache.Entry, error) {
		return prev.Confirm(200, time.Now()), nil
	})
	if _, as := c.Encoded("k", later.Entry.Content, codings.Gzip, false, false); as != codings.Gzip || metric(t, c, "encodings_total") != 3 {
		t.Errorf("Encoded after a confirmation returned %s, encodings_total = %d; want gzip, 3", codings.Names[as], metric(t, c, "encodings_total"))
	}
	expect.EventuallyEqual(t, "memory_bytes is the same after the confirmation", weight, before)
}

func TestLongBodyIsEncodedInBrotliInBackground(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, longPage(100))).Entry.Content
	if body, as := c.Encoded("k", content, codings.Brotli, false, false); as != codings.Identity || &body[0] != &content.Body[0] {
		t.Errorf("first caller got %s, want the plain body", codings.Names[as])
	}
	expect.Eventually(t, "the body is encoded in the background", func() bool { return content.Encodings[codings.Brotli].Load() != nil })
	body, as := c.Encoded("k", content, codings.Brotli, false, false)
	if as != codings.Brotli || decode(t, as, body) != string(content.Body) || metric(t, c, "encodings_total") != 1 {
		t.Errorf("next caller got %s, encodings_total = %d; want br, 1", codings.Names[as], metric(t, c, "encodings_total"))
	}
	if quick, _ := c.Encoded("k", cache.NewContent(200, content.Type, "", content.Body, 1), codings.Brotli, true, false); len(quick) <= len(body) {
		t.Errorf("caller that requires the coding got %d bytes, want more than the %d bytes encoded in the background", len(quick), len(body))
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
			expect.Equal(t, encoded, 1, "encoded bodies of 4 in round %d", round)
		}
	})
}

// A short delay lets the caller send its response first.
func TestBackgroundEncodingBeginsAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		content := mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: 100}, answer(100, longPage(100))).Entry.Content
		c.Encoded("k", content, codings.Brotli, false, false)
		synctest.Wait()
		if content.Encodings[codings.Brotli].Load() != nil {
			t.Error("body was encoded at once, want a delay")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if content.Encodings[codings.Brotli].Load() == nil {
			t.Error("body is not encoded after 1s")
		}
	})
}

// readLongPage reads the key k, whose content changes with each block.
func readLongPage(t *testing.T, c *cache.Cache, tip int64) *cache.Content {
	t.Helper()
	return mustGet(t, c, cache.Query{Key: "k", Policy: live, Tip: tip}, answer(tip, longPage(tip))).Entry.Content
}

func TestFrequentlyRequestedBodyIsEncodedAtRefresh(t *testing.T) {
	for requests, want := range map[int]bool{1: false, 2: true} {
		c := newCache(t, cache.Options{EncodeAtOnce: true, Patience: time.Minute})
		c.Encoded("k", readLongPage(t, c, 100), codings.Brotli, true, false)
		for range requests - 1 {
			readLongPage(t, c, 100)
		}
		encoded := readLongPage(t, c, 200).Encodings[codings.Brotli].Load() != nil
		expect.Equal(t, encoded, want, "next content is encoded after %d requests", requests)
	}
}

func TestBodyReadAheadIsEncodedAtRefresh(t *testing.T) {
	c := newCache(t, cache.Options{EncodeAtOnce: true, Patience: time.Minute})
	q := cache.Query{Key: "k", Policy: byTheBlock, Ahead: true}
	origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return entry(q.Tip, string(longPage(q.Tip))), nil
	}
	for q.Tip = 100; q.Tip < 103; q.Tip++ {
		c.ReadAhead(t.Context(), ahead.Block{Height: q.Tip, Time: time.Minute, Room: func() bool { return true }})
		now := c.Peek(q)
		encoded := now != nil && now.Encodings[codings.Brotli].Load() != nil
		expect.Equal(t, encoded, q.Tip == 102, "body in br after ReadAhead at block %d", q.Tip)
		for range 2 {
			c.Encoded("k", mustGet(t, c, q, origin).Entry.Content, codings.Brotli, true, false)
		}
	}
	expect.Equal(t, metric(t, c, "read_ahead_total", "origin"), 1, "reads ahead")
}

func TestUnrequestedCodingIsNotEncodedAtRefresh(t *testing.T) {
	c := newCache(t, cache.Options{EncodeAtOnce: true, Patience: time.Minute})
	c.Encoded("k", readLongPage(t, c, 100), codings.Brotli, false, false)
	for block, want := range []int{1, 2, 2, 2} {
		for range 2 {
			readLongPage(t, c, 100+10*int64(block))
		}
		expect.Equal(t, metric(t, c, "encodings_total"), want, "encodings_total at block %d", block)
	}
}

func longPage(block int64) []byte {
	var b bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&b, `{"block":%d,"index":%d},`, block, i*i)
	}
	return b.Bytes()
}

func TestIdentityCodingReturnsBody(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := cache.NewContent(200, "text/plain", "", []byte("x"), 0)
	if body, as := c.Encoded("k", content, codings.Identity, false, false); as != codings.Identity || string(body) != "x" || metric(t, c, "encodings_total") != 0 {
		t.Errorf("Encoded = %q in %s, encodings_total = %d; want x in identity, 0", body, codings.Names[as], metric(t, c, "encodings_total"))
	}
}

func TestConcurrentCallersEncodeBodyOncePerCoding(t *testing.T) {
	c := newCache(t, cache.Options{})
	content := cache.NewContent(200, "text/plain", "", bytes.Repeat(page, 20), 0)
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			coding, required := allCodings[i%3], i%2 == 0
			body, as := c.Encoded("k", content, coding, required, false)
			if required && as != coding {
				t.Errorf("Encoded = %s, want %s, which is required", codings.Names[as], codings.Names[coding])
			}
			if as == coding && decode(t, coding, body) != string(content.Body) {
				t.Errorf("body in %s does not decode to the content", codings.Names[coding])
			}
		})
	}
	callers.Wait()
	expect.Equal(t, metric(t, c, "encodings_total"), 3, "encodings_total")
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
	expect.Equal(t, calls, 4, "derivations of 4 names")
	expect.Eventually(t, "memory_bytes includes the derived contents", func() bool { return metric(t, c, "memory_bytes") > plain+4*len(page) })
	last := derive("fifth")
	derive("fifth")
	expect.Equal(t, calls, 6, "derivations after two calls with a fifth name, which is not cached")
	if _, as := c.Encoded("k", last, codings.Gzip, false, false); as != codings.Identity {
		t.Errorf("Encoded of an uncached content = %s, want identity", codings.Names[as])
	}
	if body, as := c.Encoded("k", last, codings.Gzip, true, false); as != codings.Gzip || !strings.HasPrefix(decode(t, codings.Gzip, body), "fifth") {
		t.Errorf("Encoded of an uncached content in a required coding = %s, want gzip of the body", codings.Names[as])
	}
	now = now.Add(time.Second)
	for _, name := range []string{"fifth", "fifth", "name1"} {
		derive(name)
	}
	expect.Equal(t, calls, 7, "derivations after a second, when the fifth name replaces the oldest")
	if _, as := c.Encoded("k", derive("fifth"), codings.Gzip, false, false); as != codings.Gzip {
		t.Errorf("Encoded of the fifth content after a second = %s, want gzip", codings.Names[as])
	}
}

func TestConcurrentCallersShareDerivedContent(t *testing.T) {
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
			t.Errorf("content of caller %d = %p with body %d, want %p with body %d", i, got, got.Body[0], found[i%4], i%4)
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
	expect.Equal(t, testing.AllocsPerRun(1000, hit), 0, "allocations per hit")
}

// Spare capacity would take memory that the cache does not count.
func TestContentHasLittleSpareCapacity(t *testing.T) {
	text := strings.Repeat("x", 1000)
	c := cache.NewContent(200, "text/plain", "", append(make([]byte, 0, 1500), text...), 0)
	if string(c.Body) != text || cap(c.Body) > 1200 {
		t.Errorf("length, capacity = %d, %d; want 1000, at most 1200", len(c.Body), cap(c.Body))
	}
}
