package lane

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// cuts say where in a request's bytes the values stand that vary. The bytes
// around them are compared whole, like those of any other request.
type cuts struct {
	n  int
	at [len(varying)]span // in the order of the bytes
	id int                // which of them is that of varying[0]; -1: none
}

type span struct{ from, to int }

// areOf tells whether net/http took each of the values for that of the header
// that it is meant to be, and for the only one.
func (c *cuts) areOf(request []byte, head int64, header http.Header) bool {
	for i, value := range c.at[:c.n] {
		name := 1
		if i == c.id {
			name = 0
		}
		sent := header[varying[name]]
		if int64(value.to) > head || len(sent) != 1 || sent[0] != string(request[value.from:value.to]) {
			return false
		}
	}
	return true
}

func (c *cuts) add(s span, id bool) {
	i := c.n
	for ; i > 0 && c.at[i-1].from > s.from; i-- {
		c.at[i] = c.at[i-1]
		if c.id == i-1 {
			c.id = i
		}
	}
	c.at[i] = s
	if id {
		c.id = i
	}
	c.n++
}

// spellings are the ways in which clients write the names in varying, as far as
// requests are remembered that have them: "\r\nX-Request-ID: " and the like. Most
// clients send none of these headers, and then nothing is looked for.
type spellings struct {
	mu    sync.Mutex
	known atomic.Pointer[[]spelling]
}

type spelling struct {
	line []byte // from the end of the line before to the value
	name int    // in varying
}

// maxSpellings bounds what is looked for in every request.
const maxSpellings = 6

// learn adds a spelling, unless there are enough.
func (s *spellings) learn(line []byte, name int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all()
	if slices.ContainsFunc(known, func(k spelling) bool { return bytes.Equal(k.line, line) }) {
		return true
	}
	if len(known) == maxSpellings {
		return false
	}
	known = append(slices.Clone(known), spelling{bytes.Clone(line), name})
	s.known.Store(&known)
	return true
}

func (s *spellings) all() []spelling {
	if known := s.known.Load(); known != nil {
		return *known
	}
	return nil
}

// cut finds the values in a request that may be remembered. Of a name that
// stands there twice, or with a value that is more than a word, nothing is cut:
// that request equals none that was remembered cut.
func (s *spellings) cut(request []byte) cuts {
	found := cuts{id: -1}
	var has [len(varying)]bool
	for _, k := range s.all() {
		at := bytes.Index(request, k.line)
		if at < 0 || has[k.name] {
			continue
		}
		from := at + len(k.line)
		if to := from + wordLength(request[from:]); to > from && to < len(request) && request[to] == '\r' {
			has[k.name] = true
			found.add(span{from, to}, k.name == 0)
		}
	}
	return found
}

// wordLength counts the bytes at the beginning that have no meaning in HTTP's
// grammar, of which there may be as many as a request id has at most.
func wordLength(p []byte) int {
	for i, b := range p[:min(len(p), 65)] {
		if !('a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.' || b == ':') {
			return i
		}
	}
	return 0
}

// learnFrom learns how a request spells the names in varying that it has once,
// as net/http understood it.
func (s *spellings) learnFrom(request []byte, header http.Header) {
	for name, canonical := range varying {
		if len(header[canonical]) != 1 {
			continue
		}
		for at := bytes.Index(request, crlf); at >= 0; {
			line := request[at:]
			if colon := bytes.IndexByte(line, ':'); colon > 2 && strings.EqualFold(string(line[2:colon]), canonical) {
				if end := colon + len(": "); end < len(line) && line[end-1] == ' ' {
					s.learn(line[:end], name)
				}
				break
			}
			next := bytes.Index(line[2:], crlf)
			if next <= 0 {
				break // the head ends
			}
			at += 2 + next
		}
	}
}

var crlf = []byte("\r\n")
