package heads

import (
	"crypto/sha256"
	"net/http"
	"unsafe"
)

// AppendKey appends the key of the request: everything the response depends on except the headers evaluated for each
// response. Each part ends with a byte that the part cannot contain, so different requests have different keys.
func (r *Request) AppendKey(b []byte) []byte {
	b = append(append(b, r.Method...), ' ')
	b = append(append(b, r.Target...), '\n')
	for h := Host; h <= ForwardedProto; h++ {
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
	if r.callerID.to > 0 {
		b = append(b, "id"...)
	}
	return b
}

// digest hashes the body without the caller's id.
func (r *Request) digest() [sha256.Size]byte {
	if r.callerID.to == 0 {
		return sha256.Sum256(unsafe.Slice(unsafe.StringData(r.Body), len(r.Body))) //nolint:gosec // which only reads it
	}
	var room [1 << 10]byte
	return sha256.Sum256(append(append(append(room[:0], r.Body[:r.callerID.from]...), 0), r.Body[r.callerID.to:]...))
}

// SetCallerID excludes the caller's id, body bytes from to to, from the key. The id must not be empty. Requests with and
// without an id have different keys.
func (r *Request) SetCallerID(from, to int) { r.callerID.from, r.callerID.to = from, to }

// CallerID returns the id, or "" if SetCallerID was not called.
func (r *Request) CallerID() string { return r.Body[r.callerID.from:r.callerID.to] }

// ReadFrom sets r from a net/http request without a body. It returns false if the lane cannot serve the request.
func (r *Request) ReadFrom(from *http.Request) (ok bool) {
	if from.ContentLength != 0 || from.Method != http.MethodGet && from.Method != http.MethodHead || !isTarget(from.RequestURI) || !isHost(from.Host) {
		return false
	}
	*r = Request{} // in place, because a copy would grow the goroutine's stack
	r.Method, r.Target, r.Minor, r.sent = from.Method, from.RequestURI, from.ProtoMinor, 1<<Host
	if from.ProtoMajor == 2 { //nolint:mnd // HTTP/2 has no minor versions
		r.Minor = 1
	}
	r.values[Host] = from.Host
	r.Size = len(from.Host) // a Host is not in from.Header
	for name, values := range from.Header {
		r.addSize(name, values)
	}
	for h := range headerCount {
		values := from.Header[Names[h]]
		if len(values) > 1 || len(values) == 1 && !r.set(h, values[0]) {
			return false
		}
	}
	return true
}

// ReadCall sets r from a gRPC call's metadata, as a POST whose Body the caller sets to the message later. It returns
// false if a metadata value that the handler reads is repeated.
func (r *Request) ReadCall(method string, metadata map[string][]string) (ok bool) {
	*r = Request{}
	r.Method, r.Target, r.sent = http.MethodPost, method, 1<<ContentType
	r.values[ContentType] = "application/grpc"
	for name, values := range metadata {
		r.addSize(name, values)
		h, known := findHeader(name)
		switch {
		case !known, h != CosmosBlockHeight && h != MinBlockHeight && h != APIKey && h != ForwardedFor && h != RequestID && h != UserAgent && h != Traceparent:
		case len(values) != 1:
			return false
		default:
			r.sent |= 1 << h
			r.values[h] = values[0]
		}
	}
	return true
}

func (r *Request) addSize(name string, values []string) {
	for _, value := range values {
		r.Size += len(name) + len(value)
	}
}
