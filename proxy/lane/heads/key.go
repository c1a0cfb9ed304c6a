package heads

import (
	"crypto/sha256"
	"net/http"
	"unsafe"
)

// AppendKey appends what the answer to a request depends on, except for what is judged for
// each answer: requests with equal keys have the same answer except for that. Each part has an
// end that is not in it.
func (r *Request) AppendKey(b []byte) []byte {
	b = append(append(b, r.Method...), ' ')
	b = append(append(b, r.Target...), '\n')
	for h := Host; h <= MinEVMBlock; h++ {
		if r.sent&(1<<h) != 0 {
			b = append(append(b, byte('A'+h)), r.values[h]...)
			b = append(b, '\n')
		}
	}
	if r.Method == http.MethodPost {
		sum := r.digest()
		b = append(append(b, r.values[ContentType]...), '\n')
		b = append(b, sum[:]...)
	}
	if r.own.to > 0 {
		b = append(b, "own"...)
	}
	return b
}

// digest is that of the body, except for what is the caller's own.
func (r *Request) digest() [sha256.Size]byte {
	if r.own.to == 0 {
		return sha256.Sum256(unsafe.Slice(unsafe.StringData(r.Body), len(r.Body))) //nolint:gosec // which only reads it
	}
	var room [1 << 10]byte
	return sha256.Sum256(append(append(append(room[:0], r.Body[:r.own.from]...), 0), r.Body[r.own.to:]...))
}

// SetOwn says which part of the body is the caller's own, which is in no key. The part is not empty, and the
// keys of requests that have one are others than of those that have none.
func (r *Request) SetOwn(from, to int) { r.own.from, r.own.to = from, to }

// Own is that part, "" for none.
func (r *Request) Own() string { return r.Body[r.own.from:r.own.to] }

// ReadFrom makes r what the lane would know of a request of net/http's that has no body. It is not ok where
// the request is none for the lane.
func (r *Request) ReadFrom(from *http.Request) (ok bool) {
	if from.ContentLength != 0 || from.Method != http.MethodGet && from.Method != http.MethodHead || !isTarget(from.RequestURI) || !isHost(from.Host) {
		return false
	}
	*r = Request{} // in place: the stack of a stream of HTTP/2 has no room for a copy
	r.Method, r.Target, r.Minor, r.sent = from.Method, from.RequestURI, from.ProtoMinor, 1<<Host
	if from.ProtoMajor == 2 { //nolint:mnd // HTTP/2 has no minor versions
		r.Minor = 1
	}
	r.values[Host] = from.Host
	for name, values := range from.Header {
		for _, value := range values {
			r.Size += len(name) + len(value)
		}
	}
	for h := range count {
		values := from.Header[table[h].name]
		if len(values) > 1 || len(values) == 1 && !r.set(h, values[0]) {
			return false
		}
	}
	return true
}

// OfCall reads a call of gRPC by the metadata that its handler looks at: a POST whose body is the message, once
// that is set. It is not ok where one of them comes twice.
func (r *Request) OfCall(method string, metadata map[string][]string) (ok bool) {
	*r = Request{}
	r.Method, r.Target, r.sent = http.MethodPost, method, 1<<ContentType
	r.values[ContentType] = "application/grpc"
	for name, values := range metadata {
		for _, value := range values {
			r.Size += len(name) + len(value)
		}
		h, known := find(name)
		switch {
		case !known, h != CosmosBlockHeight && h != MinBlockHeight && h != APIKey && h != ForwardedFor && h != RequestID && h != UserAgent:
		case len(values) != 1:
			return false
		default:
			r.sent |= 1 << h
			r.values[h] = values[0]
		}
	}
	return true
}
