package web

import "sync/atomic"

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
