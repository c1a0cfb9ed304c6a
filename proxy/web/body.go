package web

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
)

// LargestBody is the longest body of a request in JSON, in bytes.
const LargestBody = 1 << 20

// bodyShare has room for the longest body of any: a message of 10 MiB of gRPC-Web in base64.
const bodyShare = 14 << 20

// maxBodies bounds the bytes that the bodies of all requests take while they come and
// while they are worked on. They take a quarter of the memory for answers at most, or bodyShare.
const maxBodies = 32 << 20

func newBodies(a *limits.Admission, of memory) *limits.Places {
	if of == nil { // nothing is kept
		return a.NewBodies(maxBodies, bodyShare, nil)
	}
	return a.NewBodies(int(min(maxBodies, of.MemoryBytes()/4)), bodyShare, of)
}

// VisitBodies begins to hold memory for the body of a request, for the tenant whose key
// it has. Leave is to be called once nothing of the body is in use.
func (s *Stack) VisitBodies(r *http.Request, tenant string) *limits.Visit {
	return s.incoming.Visit(r, tenant, time.Second)
}

// ReadBody reads a body of at most so many bytes, of which from makes sure. It takes
// places for them as they come: a client that announces much and sends nothing holds
// next to nothing. The error is from's, or a *Failure.
func ReadBody(from io.Reader, largest int64, v *limits.Visit) ([]byte, error) {
	const first = 512 // room for a call of JSON-RPC
	var body []byte
	for {
		if len(body) == cap(body) {
			grown := min(max(first, 2*cap(body)), int(largest)+1) // one more, to see the end
			if err := v.Take(grown - cap(body)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// BodyFailure says why the body of a request did not come, which may be that it is too large.
func BodyFailure(err error, tooLarge string) error {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Expected: true, Public: tooLarge}
	}
	if refusal := new(Failure); errors.As(err, &refusal) {
		return err
	}
	return BadInput("the body did not arrive whole")
}
