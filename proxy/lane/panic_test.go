package lane_test

import "testing"

func TestARequestWhoseHandlerPanicsIsAnsweredByTheHandler(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	s.version.Store(panics)
	hits, handled := s.hits.Load(), s.handled.Load()
	w := s.dial()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != hits || s.handled.Load() != handled+1 {
		t.Errorf("%d hits and %d requests of the handler, want none and one", s.hits.Load()-hits, s.handled.Load()-handled)
	}
}
