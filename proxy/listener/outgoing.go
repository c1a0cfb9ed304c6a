package listener

import (
	"slices"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
)

// outgoing has the bodies that are being written to clients set aside in the memory for
// answers, each once however many clients it is for. Where there is too little, it closes
// connections of clients that do not read, those first that have taken nothing for longest.
// It looks now and then, so that a hit is none the slower: what comes meanwhile is bounded
// by what the nodes give.
type outgoing struct {
	listener *Listener
	memory   *account.Account
	reserved int64
}

// outgoingCheck is how often it looks.
const outgoingCheck = 250 * time.Millisecond

// run looks until the listener is closed.
func (o *outgoing) run() {
	ticker := time.NewTicker(outgoingCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			o.makeRoom()
		case <-o.listener.ended.Done():
			o.reserve(0)
			return
		}
	}
}

// reserve sets so many bytes aside in place of those before.
func (o *outgoing) reserve(bytes int64) (ok bool) {
	if ok = o.memory.Reserve(account.Unread, bytes-o.reserved); ok {
		o.reserved = bytes
	}
	return ok
}

// A delivery is the writing of bodies to one client.
type delivery struct {
	conn   *web.Conn
	since  time.Time // when it took something last; zero: it reads
	bodies []*byte   // the first bytes
}

// makeRoom sets aside what is being written, or ends deliveries until there is room for the rest.
func (o *outgoing) makeRoom() {
	all, clients, sum := o.deliveries()
	if o.reserve(sum) {
		return
	}
	all = slices.DeleteFunc(all, func(d delivery) bool { return d.since.IsZero() })
	slices.SortFunc(all, func(a, b delivery) int { return a.since.Compare(b.since) })
	for _, d := range all {
		_ = d.conn.Abort()
		o.listener.metrics.closed.WithLabelValues("memory").Inc()
		for _, first := range d.bodies {
			if body := clients[first]; body.clients > 1 {
				body.clients--
			} else {
				sum -= body.weight
			}
		}
		if o.reserve(sum) {
			return
		}
	}
}

// A body is written to some clients.
type body struct {
	weight  int64
	clients int
}

func (o *outgoing) deliveries() (all []delivery, bodies map[*byte]*body, sum int64) {
	bodies = map[*byte]*body{}
	o.listener.mu.Lock()
	defer o.listener.mu.Unlock()
	for n := range o.listener.taken {
		d := delivery{conn: n.conn}
		n.conn.EachBody(func(text []byte) {
			first := unsafe.SliceData(text)
			if bodies[first] == nil {
				bodies[first] = &body{weight: int64(heap.Allocated(cap(text)))}
				sum += bodies[first].weight
			}
			bodies[first].clients++
			d.bodies = append(d.bodies, first)
		})
		if d.bodies == nil {
			continue
		}
		if since, stalled := n.conn.Stalled(); stalled {
			d.since = since
		}
		all = append(all, d)
	}
	return all, bodies, sum
}
