package conn

import "time"

// Idle says since when nothing came from the client; not idle is a connection
// whose request is being answered.
func (s *socket) Idle() (since time.Time, idle bool) {
	return time.Unix(0, s.active.Load()), !s.busy.Load() && s.calls.Load() == 0 && s.writing.Load() == 0
}

// A client that takes less than writePiece in stallTime does not read: the kernel
// holds some hundred kilobytes for it besides.
const (
	writePiece = 64 << 10
	stallTime  = time.Second
)

// Stalled says since when the client takes nothing of what is written to it; not
// stalled is a connection to which nothing is written, or was not for long.
func (s *socket) Stalled() (since time.Time, stalled bool) {
	since, waiting := s.streams.waitingSince(s.busy.Load())
	if began := s.writing.Load(); began != 0 {
		since, waiting = time.Unix(0, began), true
	}
	return since, waiting && time.Since(since) >= stallTime
}
