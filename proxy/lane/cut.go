package lane

import (
	"bytes"
	"strings"
)

// cuts say where in a request's bytes the values stand that vary. The bytes
// around them are compared whole, like those of any other request.
type cuts struct {
	n  int
	at [len(varying)]span // in the order of the bytes
	id int                // which of them is that of varying[0]; -1: none
}

type span struct{ from, to int }

// cut finds the values in a request's head that vary, however the names are spelled.
// Nothing is cut out of a request that has one of the names twice, in whatever
// spelling: which of the two is meant is not for the lane to say.
func cut(request []byte) cuts {
	found := cuts{id: -1}
	var has [len(varying)]bool
	for at := bytes.IndexByte(request, '\n') + 1; at > 0; {
		line := request[at:]
		end := bytes.IndexByte(line, '\n')
		if end <= 1 {
			break // the head ends
		}
		if name, value := variesIn(line[:end]); name >= 0 {
			if has[name] {
				return cuts{id: -1}
			}
			has[name] = true
			found.add(span{at + value.from, at + value.to}, name == 0)
		}
		at += end + 1
	}
	return found
}

// variesIn is the header in varying that a line of a head has, -1 for none, and
// where its value stands in the line. The span is empty where the value is none that
// may be cut.
func variesIn(line []byte) (name int, value span) {
	for name, spelled := range varying {
		if colon := len(spelled); len(line) > colon+1 && line[colon] == ':' && strings.EqualFold(string(line[:colon]), spelled) {
			from := colon + 1
			if line[from] == ' ' {
				from++
			}
			if to := from + wordLength(line[from:]); to < len(line) && line[to] == '\r' {
				return name, span{from, to}
			}
			return name, span{}
		}
	}
	return -1, span{}
}

// add adds a value that stands behind those before; an empty one is not cut.
func (c *cuts) add(s span, id bool) {
	if s.from == s.to {
		return
	}
	if id {
		c.id = c.n
	}
	c.at[c.n] = s
	c.n++
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
