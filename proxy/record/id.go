package record

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"

	"github.com/tipcache/tipcache/proxy/respond"
)

// RequestID returns the id in the headers of a request if it is harmless, or else a new one. An id must be unique, and
// is no secret.
func RequestID(h http.Header) string {
	if sent := h[respond.RequestIDHeader]; len(sent) > 0 && SafeID(sent[0]) {
		return sent[0]
	}
	var room [32]byte
	return string(AppendID(room[:0]))
}

// AppendID makes an id.
func AppendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.AppendEncode(b, id[:])
}

// SafeID tells whether a client's id is harmless.
func SafeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}
