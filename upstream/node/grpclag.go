package node

import (
	"sync"
	"time"
)

// lagAfter is how long a gRPC server may refuse a block that its node has, because it may serve a new block a moment later than
// REST and RPC.
const lagAfter = 200 * time.Millisecond

// A grpcLag records whether a gRPC server is behind the REST and RPC servers of its node. The name of its address may then stand
// for another server than when it was resolved.
type grpcLag struct {
	mu       sync.Mutex
	refused  int64 // lowest height that the server refused as in the future although its node has it; 0 if there is none
	since    time.Time
	isBehind bool // it has refused heights for lagAfter
}

// record records that the server has refused a height that its node has, and reports whether the server counts as behind.
func (l *grpcLag) record(height int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == 0 {
		l.since = time.Now()
	}
	if l.refused == 0 || height < l.refused {
		l.refused = height
	}
	l.isBehind = l.isBehind || time.Since(l.since) >= lagAfter
	return l.isBehind
}

// end records that the server has served a height.
func (l *grpcLag) end(height int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if height >= l.refused {
		l.refused, l.isBehind = 0, false
	}
}

// hides reports whether the server does not have a height because it is behind.
func (l *grpcLag) hides(height int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isBehind && height >= l.refused
}
