// Package logtest is a log for tests, which read it while it is written.
package logtest

import (
	"strings"
	"sync"
)

// A Log is all that was written to it. The zero value is an empty one. It is safe
// for concurrent use.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer, and never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count is how often a text was written so far.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
