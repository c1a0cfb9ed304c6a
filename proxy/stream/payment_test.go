package stream_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// slowly allows one event in ten seconds. The request itself uses the first.
var slowly = web.Options{Limits: limits.Limits{Address: limits.Rate{Requests: 1, Per: 10 * time.Second, Burst: 1}}}

func TestEventsAreChargedAndOnlyNewestIsSentLater(t *testing.T) {
	slow, rich := keyOf("slow", "1"), keyOf("rich", "2")
	slow.Rate = slowly.Limits.Address
	inBubbleWith(t, stream.Options{}, web.Options{Keys: []limits.Key{slow, rich}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		reader := s.follow("/a", "X-Api-Key", "2")
		reader.expect(t, `1`)
		f := s.follow("/a", "X-Api-Key", "1")
		f.expect(t, `1`)
		for n := 2; n < 8; n++ {
			s.setAnswers(map[string]string{"/a": fmt.Sprint(n)})
			reader.expect(t, fmt.Sprint(n))
			time.Sleep(time.Second)
		}
		f.expect(t)
		time.Sleep(6 * time.Second)
		f.expect(t, `7`)
	})
}

// Otherwise the failures of the first paths would use up what the limits allow, again and again.
func TestFailureIsChargedOncePerBlockEvent(t *testing.T) {
	slow, rich := keyOf("slow", "1"), keyOf("rich", "2")
	slow.Rate = slowly.Limits.Address
	inBubbleWith(t, stream.Options{}, web.Options{Keys: []limits.Key{slow, rich}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": unreadable, "/b": unreadable, "/c": unreadable})
		target := live("/a", "/b", "/c") + "&stream.blocks=true"
		s.follow(target, "X-Api-Key", "2") // usually pays for the reads
		f := s.follow(target, "X-Api-Key", "1")
		time.Sleep(5 * time.Minute)
		all := summarize(f.events())
		failures, frames := 0, 0
		for _, e := range all {
			if e[0] == '#' {
				failures, frames = 0, frames+1
			} else if failures++; failures > 3 {
				break
			}
		}
		if failures > 3 || frames == 0 {
			t.Errorf("events = %q, want at most one failure of each path before a block event", all)
		}
	})
}

func TestTopicIsNotReadWhenNoSubscriberCanBeCharged(t *testing.T) {
	inBubbleWith(t, stream.Options{}, slowly, func(s *service) {
		paths := []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/10"}
		for _, path := range paths {
			s.setAnswers(map[string]string{path: `1`})
		}
		f := s.follow(live(paths...))
		for range 50 {
			s.setAnswers(nil)
			time.Sleep(2 * time.Second)
		}
		if reads := len(s.readers()); reads > 11 {
			t.Errorf("%d reads in 100 seconds, want at most 11", reads)
		}
		if data, _ := f.data(); len(data) < 2 {
			t.Errorf("events = %q, want at least 2", data)
		}
	})
}

func TestReadIsChargedToASubscriber(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		first := s.followFrom("192.0.2.1", "/a")
		first.expect(t, `1`)
		s.followFrom("192.0.2.2", "/a").expect(t, `1`)
		first.leave()
		expect.NoDiff(t, s.readers(), []string{"streams of 192.0.2.1"}, "clients of the reads")
		s.setAnswers(map[string]string{"/a": `2`})
		expect.NoDiff(t, s.readers(), []string{"streams of 192.0.2.2"}, "clients of the reads")
	})
}

func keyOf(name, secret string) limits.Key {
	return limits.Key{Name: name, SHA256: sha256.Sum256([]byte(secret))}
}

func TestReloadEndsStreamsOfRemovedKeys(t *testing.T) {
	app, shop := keyOf("app", "1"), keyOf("shop", "2")
	inBubbleWith(t, stream.Options{}, web.Options{Keys: []limits.Key{app, shop}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		revoked, stays := s.follow("/a", "X-Api-Key", "1"), s.follow("/a?stream.api_key=2")
		revoked.expect(t, `1`)
		stays.expect(t, `1`)
		s.stack.SetKeys([]limits.Key{shop})
		s.streams.Readmit()
		<-revoked.ended
		if events := revoked.events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events = %q, want one retry event", events)
		}
		s.setAnswers(map[string]string{"/a": `2`})
		stays.expect(t, `2`)
	})
}

func TestReloadAppliesNewRateToOpenStreams(t *testing.T) {
	key := keyOf("app", "1")
	inBubbleWith(t, stream.Options{}, web.Options{Keys: []limits.Key{key}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		f := s.follow("/a", "X-Api-Key", "1")
		f.expect(t, `1`)
		key.Rate = limits.Rate{Requests: 1, Per: time.Minute, Burst: 1}
		s.stack.SetKeys([]limits.Key{key})
		s.streams.Readmit()
		synctest.Wait()
		s.setAnswers(map[string]string{"/a": `2`})
		f.expect(t, `2`)
		s.setAnswers(map[string]string{"/a": `3`})
		f.expect(t)
		time.Sleep(2 * time.Minute)
		f.expect(t, `3`)
	})
}

func TestStreamsPerKeyAreLimited(t *testing.T) {
	inBubbleWith(t, stream.Options{Settings: stream.Settings{PerClient: 2}}, web.Options{Keys: []limits.Key{keyOf("app", "1"), keyOf("shop", "2")}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		s.followFrom("192.0.2.1", "/a", "X-Api-Key", "1").expect(t, `1`)
		s.followFrom("192.0.2.2", "/a", "X-Api-Key", "1").expect(t, `1`)
		third := s.followFrom("192.0.2.3", "/a", "X-Api-Key", "1")
		if events := third.events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events = %q, want one retry event", events)
		}
		s.followFrom("192.0.2.3", "/a", "X-Api-Key", "2").expect(t, `1`)
	})
}

func TestStreamsOfAllClientsAreLimited(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{Max: 1}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		first := s.followFrom("192.0.2.1", "/a")
		first.expect(t, `1`)
		if events := s.followFrom("192.0.2.2", "/a").events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events of the second stream = %q, want one retry event", events)
		}
		first.leave()
		s.followFrom("192.0.2.2", "/a").expect(t, `1`)
	})
}

// A reverse proxy on the same machine that forwards no addresses may serve many clients.
func TestStreamsFromLoopbackAreNotLimitedAsOneClient(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{PerClient: 1}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		for range 3 {
			s.followFrom("127.0.0.1", "/a").expect(t, `1`)
		}
	})
}

func TestKeyWithRateHasStreamsOfManyClients(t *testing.T) {
	child := keyOf("child", "1")
	child.Rate = limits.Rate{Requests: 1000, Per: time.Second, Burst: 1000}
	inBubbleWith(t, stream.Options{Settings: stream.Settings{PerClient: 2}}, web.Options{Keys: []limits.Key{child, keyOf("app", "2")}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		for range 32 {
			s.follow("/a", "X-Api-Key", "1").expect(t, `1`)
		}
		if events := s.follow("/a", "X-Api-Key", "1").events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events of the 33rd stream = %q, want one retry event", events)
		}
		s.follow("/a", "X-Api-Key", "2").expect(t, `1`) // another client of the same address
	})
}
