package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// A stream of several answers resumes by an id that has a part for each path, in
// their order: the digests of the path and of the last answer in one, or nothing
// where there was no answer yet. Dots stand between the parts. The id is an event
// without data after each batch of answers, so that the answers' own events are the
// same for all clients. EventSource takes note of it and dispatches nothing.

// A digest names what an event tells, alike in all replicas. It has 48 bits.
type digest uint64

const (
	digestBytes = 6
	digestText  = digestBytes * 4 / 3 // characters of base64
)

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(binary.BigEndian.Uint64(sum[:8]) >> (64 - 8*digestBytes))
}

// idEvent tells what a client has of all paths; nil for no paths.
func idEvent(all []subscription) []byte {
	if len(all) == 0 {
		return nil
	}
	event := append(make([]byte, 0, len("id: \n\n")+len(all)*(digestText+1)), "id: "...)
	for i := range all {
		if s := &all[i]; s.answer != 0 {
			event = (s.answer ^ s.name).appendText(event)
		}
		event = append(event, '.')
	}
	return append(event[:len(event)-1], "\n\n"...)
}

// resumeAfter takes note of what a client has, as an id tells. An unknown id tells
// nothing.
func resumeAfter(id string, all []subscription) {
	parts := strings.Split(id, ".")
	if len(parts) != len(all) {
		return
	}
	for i := range all {
		if told, ok := parseDigest(parts[i]); ok {
			all[i].answer = told ^ all[i].name
		}
	}
}

func (d digest) appendText(b []byte) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], uint64(d))
	return base64.RawURLEncoding.AppendEncode(b, sum[8-digestBytes:])
}

func parseDigest(text string) (d digest, ok bool) {
	var sum [8]byte
	if len(text) != digestText {
		return 0, false
	}
	_, err := base64.RawURLEncoding.Decode(sum[8-digestBytes:], []byte(text))
	return digest(binary.BigEndian.Uint64(sum[:])), err == nil
}
