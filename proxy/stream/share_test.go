package stream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/account"
)

// The tests use an account of 64 MiB: 16 MiB for events, and a share of 4 MiB.

// fill opens streams of distinct paths from an address, until one is refused.
func (s *service) fill(address string) (open []*follower) {
	s.t.Helper()
	for i := range 1000 {
		var paths []string
		for k := range stream.MaxLivePaths {
			paths = append(paths, fmt.Sprintf("/%s/%d/%d", address, i, k))
		}
		f := s.followFrom(address, live(paths...))
		synctest.Wait()
		select {
		case <-f.ended:
			return open
		default:
			open = append(open, f)
		}
	}
	s.t.Fatal("an address follows 20,000 paths, want them limited by its share of the memory")
	return nil
}

func TestClientHasAShareOfTheMemoryForStreams(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{PerClient: 1000}, Budget: account.New(64<<20, nil)}, func(s *service) {
		before := s.follow("/before")
		before.expect(t, ``)
		s.fill("192.0.2.66")
		s.followFrom("192.0.2.2", "/new").expect(t, ``)
		poll := s.poll(s.poll("/a?since=0").expect(http.StatusOK, ``))
		if !poll.waits() {
			t.Errorf("status of a poll = %d, want it to wait", poll.to.Code)
		}
		s.setAnswers(map[string]string{"/before": answerOf(1<<20, 1), "/a": `2`})
		before.expect(t, answerOf(1<<20, 1))
		poll.expect(http.StatusOK, `2`)
	})
}

func TestOpenStreamsHaveMemoryForTheirNextEvents(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{PerClient: 1000}, Budget: account.New(64<<20, nil)}, func(s *service) {
		first := s.fill("192.0.2.66")[0]
		first.events()
		for n := range 3 {
			s.setAnswers(map[string]string{"/192.0.2.66/0/0": answerOf(1<<20, n)})
			if data, _ := first.data(); len(data) != 1 || !strings.Contains(data[0], answerOf(1<<20, n)) {
				t.Errorf("got %d events, want the new answer", len(data))
			}
		}
	})
}

// Otherwise a client that has used its share could hold up the answers of the topics that it follows.
func TestAnotherFollowerPaysForTheAnswer(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{PerClient: 1000}, Budget: account.New(64<<20, nil)}, func(s *service) {
		shared := s.followFrom("192.0.2.66", "/shared")
		s.fill("192.0.2.66")
		other := s.followFrom("192.0.2.2", "/shared")
		s.setAnswers(map[string]string{"/shared": answerOf(3<<20, 1)})
		other.expect(t, ``, answerOf(3<<20, 1))
		shared.leave()
		s.setAnswers(map[string]string{"/shared": answerOf(3<<20, 2)})
		other.expect(t, answerOf(3<<20, 2))
	})
}

func TestShortMemoryEndsTheStreamsOfTheLargestClient(t *testing.T) {
	inBubble(t, stream.Options{Settings: stream.Settings{PerClient: 1000}, Budget: account.New(64<<20, nil)}, func(s *service) {
		waiting := s.poll(s.poll("/a?since=0").expect(http.StatusOK, ``))
		var all []*follower
		for i := range 5 {
			all = append(all, s.fill(fmt.Sprint("192.0.2.", 10+i))...)
		}
		var paths []string
		for i := range stream.MaxLivePaths {
			paths = append(paths, fmt.Sprint("/small/", i))
		}
		small := s.followFrom("192.0.2.2", live(paths...))
		if events := small.events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Fatalf("events = %q, want one retry event while the memory is in use", events)
		}
		s.budget.Reclaim(account.Events, <-s.budget.Short(account.Events))
		synctest.Wait()
		ended := 0
		for _, f := range all {
			select {
			case <-f.ended:
				ended++
				if events := f.events(); !strings.HasPrefix(events[len(events)-1], "retry: ") {
					t.Errorf("last event = %q, want retry", events[len(events)-1])
				}
			default:
			}
		}
		if ended == 0 || ended > len(all)/2 {
			t.Errorf("ended %d of %d streams, want some", ended, len(all))
		}
		if data, _ := s.followFrom("192.0.2.2", live(paths...)).data(); len(data) != len(paths) {
			t.Errorf("got %d answers, want %d", len(data), len(paths))
		}
		if !waiting.waits() {
			t.Error("the poll of another client has ended, want it to wait")
		}
	})
}
