package jsonrpc

import "strings"

// FindID returns the position of what may be the id of a body's only call: a number or plain string behind the
// first "id" of an object. If [FindsID] is true of the body, it is the id, also after another such id has replaced
// it.
func FindID(body string) (from, to int, ok bool) {
	at := strings.Index(body, `"id"`)
	if at < 0 || body[skip(body, 0)] != '{' {
		return 0, 0, false
	}
	if at = skip(body, at+len(`"id"`)); at == len(body) || body[at] != ':' {
		return 0, 0, false
	}
	from = skip(body, at+1)
	to = idEnd(body, from)
	return from, to, to > from
}

// FindsID reports whether FindID finds the id of the only call in a body.
func FindsID(body []byte) bool {
	c, at, ok := readPlain(body)
	if !ok || c.ID == nil {
		return false
	}
	from, to, ok := FindID(string(body))
	return ok && from == at && to == at+len(c.ID)
}

// skip returns the position of the first character at or after at that is not white space.
func skip(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

// idEnd returns the end of the id that begins at from, or from if there is no id that the answer repeats
// unchanged.
func idEnd(text string, from int) int {
	to := from
	if from < len(text) && text[from] == '"' {
		for to++; to < len(text) && text[to] != '"' && isPlain(text[to]); to++ {
		}
		if to == len(text) || text[to] != '"' {
			return from
		}
		return to + 1
	}
	for to < len(text) && '0' <= text[to] && text[to] <= '9' {
		to++
	}
	if text[from:min(to, from+1)] == "0" && to > from+1 { // JSON has no leading zeros
		return from
	}
	return to
}
