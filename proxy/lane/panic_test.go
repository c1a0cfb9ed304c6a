package lane_test

import "testing"

func TestRequestIsServedByNetHTTPIfLaneHandlerPanics(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	s.version.Store(panics)
	hits, handled := s.hits.Load(), s.handled.Load()
	w := s.dial()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != hits || s.handled.Load() != handled+1 {
		t.Errorf("lane served %d and handler %d requests, want 0 and 1", s.hits.Load()-hits, s.handled.Load()-handled)
	}
}
