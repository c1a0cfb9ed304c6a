package stream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func (f *follower) sent() []byte {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.text)
}

// inflated decodes gzip text as far as it has been received.
func inflated(t *testing.T, coded []byte) (text string, err error) {
	t.Helper()
	r := expect.Value(gzip.NewReader(bytes.NewReader(coded)))(t)
	all, err := io.ReadAll(r)
	return string(all), err
}

// eventsIn returns the sorted events of a stream, without the id events, whose number depends on batches.
func eventsIn(text string) []string {
	all := slices.DeleteFunc(strings.Split(text, "\n\n"), func(event string) bool {
		return strings.HasPrefix(event, "id: ") && !strings.Contains(event, "\n")
	})
	slices.Sort(all)
	return all
}

// noise returns a JSON string that hardly compresses.
func noise(seed uint64, bytes int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, bytes)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"[r.IntN(64)]
	}
	return `"` + string(text) + `"`
}

func TestGzipStreamEqualsPlainStream(t *testing.T) {
	inBubble(t, stream.Options{KeepAlive: 10 * time.Second}, func(s *service) {
		targets := []string{"/a", live("/a", "/b"), live("/b", "/a") + "&stream.blocks=1"}
		s.setAnswers(map[string]string{"/a": `1`, "/b": noise(1, 200_000)})
		var plain, coded []*follower
		for _, target := range targets {
			plain, coded = append(plain, s.follow(target)), append(coded, s.follow(target, "Accept-Encoding", "br, gzip;q=0.8"))
			synctest.Wait()
		}
		for n, answer := range []string{`2`, noise(2, 100), noise(3, 3000), unreadable, noise(4, 70_000), strings.Repeat("9", 50_000)} {
			s.setAnswers(map[string]string{"/a": answer, "/b": fmt.Sprint(n / 2)})
			synctest.Wait()
			time.Sleep(13 * time.Second)
		}
		for i := range targets {
			want := string(plain[i].sent())
			got, err := inflated(s.t, coded[i].sent())
			if !errors.Is(err, io.ErrUnexpectedEOF) || !slices.Equal(eventsIn(got), eventsIn(want)) {
				s.t.Errorf("%s: decoded %d bytes with error %v, want the %d bytes of the plain stream and %v", targets[i], len(got), err, len(want), io.ErrUnexpectedEOF)
			}
			if coded[i].header.Get("Content-Encoding") != "gzip" || coded[i].header.Get("Vary") != "Accept, Accept-Encoding" || plain[i].header.Get("Vary") != "Accept, Accept-Encoding" {
				s.t.Errorf("%s: header = %v, want Content-Encoding: gzip and Vary: Accept, Accept-Encoding", targets[i], coded[i].header)
			}
		}
		s.streams.Drain()
		for i := range targets {
			if got, err := inflated(s.t, coded[i].sent()); err != nil || !strings.Contains(got, "retry: ") {
				s.t.Errorf("%s: error %v, stream ends with %q, want a complete gzip stream that ends with retry", targets[i], err, got[max(0, len(got)-20):])
			}
			coded[i].leave()
			plain[i].leave()
		}
		expect.Equal(s.t, s.budget.reserved(), 0, "reserved bytes after the last follower left")
	})
}

func TestGzipIsNegotiated(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		for accepted, want := range map[string]string{
			"gzip": "gzip", "x-gzip": "gzip", "gzip, deflate, br, zstd": "gzip", "*": "gzip", "gzip;q=0.001": "gzip", "identity;q=0.5, gzip": "gzip",
			"": "", "br": "", "gzip;q=0": "", "identity, gzip;q=0.5": "", "*;q=0": "", "gzip;q=x": "",
		} {
			f := s.follow("/a", "Accept-Encoding", accepted)
			synctest.Wait()
			expect.Equal(s.t, f.header.Get("Content-Encoding"), want, "Accept-Encoding %q: Content-Encoding", accepted)
		}
	})
}

func TestCompressedAnswerIsKeptWithinBudget(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		text := noise(1, large)
		s.setAnswers(map[string]string{"/a": text})
		plain := s.follow("/a")
		synctest.Wait()
		before := s.budget.reserved()
		first := s.follow("/a", "Accept-Encoding", "gzip")
		if got, _ := inflated(s.t, first.sent()); !strings.Contains(got, text) {
			s.t.Error("stream lacks the answer")
		}
		if more := s.budget.reserved() - before; more < large/2 || more > large {
			s.t.Errorf("compression reserved %d bytes, want between %d and %d", more, large/2, large)
		}
		s.setAnswers(map[string]string{"/b": noise(2, large)})
		s.budget.leave(large + 100<<10) // enough for the text alone
		before = s.budget.reserved()
		second := s.follow("/b", "Accept-Encoding", "gzip")
		if got, _ := inflated(s.t, second.sent()); !strings.Contains(got, noise(2, large)) {
			s.t.Error("stream beyond the budget lacks the answer")
		}
		if more := s.budget.reserved() - before; more > large+100<<10 {
			s.t.Errorf("compression over the budget reserved %d bytes, want at most %d", more, large+100<<10)
		}
		if n := len(second.sent()); n < large {
			s.t.Errorf("sent %d bytes of a text of %d, want it uncompressed, because deflated data does not fit into the budget", n, large)
		}
		for _, f := range []*follower{plain, first, second} {
			f.leave()
		}
		expect.Equal(s.t, s.budget.reserved(), 0, "reserved bytes after the last follower left")
	})
}
