package lane_test

import "testing"

func TestARequestThatIsRememberedAnewIsCountedOnce(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	once := s.lane.Bytes()
	for range 5 {
		s.version.Store(7) // memory has dropped it, so the handler answers, and it is remembered
		know(s, getA)
		s.version.Store(1)
		know(s, getA)
	}
	if got := s.lane.Bytes(); once == 0 || got != once {
		t.Errorf("%d bytes of one request, want the %d it had at first", got, once)
	}
}

func TestARequestWhoseShortcutPanicsIsAnsweredByTheHandler(t *testing.T) {
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
