package web

import (
	"errors"
	"io"
	"net/http"

	"github.com/tipcache/tipcache/proxy/limits"
)

// maxBodies bounds the bytes that the bodies of one interface's requests take while
// they come and while they are worked on. A client's share of them has room for the
// largest body at least.
const maxBodies = 32 << 20

// NewBodies makes places, a byte each, for the bodies of one interface's requests, of
// which the largest has so many bytes.
func (s *Stack) NewBodies(largest int64) *limits.Places {
	return s.admission.NewPlaces(int(max(maxBodies, limits.Shares*(largest+1))), "bring a body")
}

// ReadBody reads a body of at most so many bytes, of which from makes sure. It takes
// places for them as they come: a client that announces much and sends nothing holds
// next to nothing. The error is from's, or a *Failure.
func ReadBody(from io.Reader, largest int64, v *limits.Visit) ([]byte, error) {
	const first = 4 << 10
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
