package jsonrpc

import "strings"

// Own finds in a body what may be the id of its only call, as libraries write one: a number or a plain text,
// behind the first "id" of an object. It is what the answer has of the caller's, if the body is one that
// [IsOwn] is true of; with another such id in its place it still is.
func Own(body string) (from, to int, ok bool) {
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

// IsOwn tells whether Own finds in a body the id of its call, whatever else is in it.
func IsOwn(body []byte) bool {
	c, at, ok := readPlain(body)
	if !ok || c.ID == nil {
		return false
	}
	from, to, ok := Own(string(body))
	return ok && from == at && to == at+len(c.ID)
}

// skip is where the blanks from at on end.
func skip(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

// idEnd is where an id ends that begins at from, or not behind that where there is none that is given back as
// it stands.
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
