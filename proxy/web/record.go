package web

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
)

// NoRoute is the route's name where there is none: paths are not labels.
const NoRoute = "none"

// A Record is what one request is remembered by, in the log and in metrics, and
// what of its connection matters to its handler.
type Record struct {
	record.Record

	key    limits.Key // the request's, where one is required
	client *Conn      // nil: it is not ours
	conn   *lane.Conn // nil: the answer is of no use to the fast lane
	memory Memory
}

// seen is the highest block that a client was answered at on its connection, so
// that later answers there do not go back behind it.
type seen struct{ epoch, height atomic.Int64 }

// Seen is the highest block of an epoch that the request's client was answered at
// on its connection; 0 for none.
func (rec *Record) Seen(epoch int64) int64 {
	if rec.client == nil || rec.client.seen.epoch.Load() != epoch {
		return 0
	}
	return rec.client.seen.height.Load()
}

// Show notes the block that the client is about to be answered at. Requests of a
// connection come one after the other.
func (rec *Record) Show(epoch, height int64) {
	if rec.client == nil {
		return
	}
	rec.client.seen.epoch.Store(epoch)
	rec.client.seen.height.Store(height)
}

// fail notes why the request is not answered, for the client and for the log.
func (rec *Record) fail(err error) { rec.Err, rec.Outcome = err, "" }

// requestID takes the client's id if it is harmless, else makes one. An id has
// to be one of a kind, and no secret.
func requestID(h http.Header) string {
	if sent := h[RequestIDHeader]; len(sent) > 0 && safeID(sent[0]) {
		return sent[0]
	}
	var room [32]byte
	return string(appendID(room[:0]))
}

// appendID makes an id.
func appendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.AppendEncode(b, id[:])
}

func safeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}
