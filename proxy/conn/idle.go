package conn

import "time"

// Idle reports whether the connection has no request or write in progress, and the time of the client's last activity.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.active.Load()), !s.busy.Load() && s.calls.Load() == 0 && s.writing.Load() == 0
}

// A client that reads less than writePiece in stallTime is stalled. The kernel buffers some hundred kilobytes in
// addition.
const (
	writePiece = 64 << 10
	stallTime  = time.Second
)

// Stalled reports whether a write has been blocked for stallTime, and since when.
func (s *socket) Stalled() (since time.Time, stalled bool) {
	since, waiting := s.streams.waitingSince(s.busy.Load())
	if began := s.writing.Load(); began != 0 {
		since, waiting = time.Unix(0, began), true
	}
	return since, waiting && time.Since(since) >= stallTime
}
