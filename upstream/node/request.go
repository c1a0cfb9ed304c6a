package node

import (
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// AtTip as Request.Height asks for the newest block that is known when the
// request leaves the queue. If none is known the node's latest is read.
const AtTip int64 = -1

// A Request is one read.
type Request struct {
	Path       string  // canonical, starts with /, not percent-encoded
	Query      string  // encoded, without ?
	PageKey    string  // Story alone: the raw bytes of the page key, which Query leaves out. The node is sent them in the form that it reads
	Keys       KeyForm // Story alone: the form of the page key in Query, which is sent verbatim. Nodes known to read another are not asked while one is known to read this; UnknownKeys for no key
	Height     int64   // AtTip, a height to read at, or 0 for the node's latest
	Unpinned   bool    // the height only chooses the node, which is not told of it and answers as of its latest
	Cost       Cost
	Client     string      // on whose behalf: clients take turns at an endpoint
	Call       *Call       // of CometBFT's RPC, in place of Path, Query and Post; nil for none
	Invoke     *Invocation // of a node's gRPC, likewise; nil for none
	Post       *Post       // nil for a GET. It is sent to one node at most, and once
	Miss       bool        // no older answer is at hand: it goes before other requests of the client
	Background bool        // yields to foreground requests, and waits for its turn until its context ends
	Only       string      // the name of the node to be asked; "" for any
	Avoid      string      // the name of one that is asked only where no other can be, or will be soon; "" for none
	Audit      bool        // it is counted as an audit's
	Ahead      bool        // no client waits for it: it does not wait for a turn, and leaves room for one that a client waits for
}

// rest says whether a request is for the REST server.
func (r Request) rest() bool { return r.Call == nil && r.Invoke == nil }

// slow says whether a request waits for a block: it takes no turn among the reads.
func (r Request) slow() bool { return r.Call != nil && r.Call.Slow }

// writes says whether a request may change something.
func (r Request) writes() bool {
	return r.Post != nil || r.Call != nil && r.Call.Write || r.Invoke != nil && r.Invoke.Write
}

// told is the height that the node is told of, 0 for none.
func (r Request) told(height int64) int64 {
	if r.Unpinned {
		return 0
	}
	return height
}

// queued is what waits for a turn at an endpoint.
func (r Request) queued() queue.Request {
	return queue.Request{Client: r.Client, Cost: r.Cost, Miss: r.Miss, Background: r.Background, Ahead: r.Ahead}
}

// A Post is the body of a request that is no read.
type Post struct {
	Body []byte
	Type string // Content-Type
}

// Cost is how heavy a request is for the node.
type Cost = queue.Cost

// The cost classes.
const (
	Cheap   = queue.Cheap
	Page    = queue.Page
	Scan    = queue.Scan
	Unknown = queue.Unknown
)

// An Answer is what a node said, refusals included.
type Answer struct {
	Status     int    // what it means as an HTTP status: 200, 400, 404 or 502; in Cosmos that of the node
	NodeStatus int    // what the node sent: for Story 200, 404 or, for every failure, 500
	Type       string // Content-Type
	Body       []byte // as received; valid JSON where Reason is OK
	Text       string // the node's error text, decoded; "" on success
	Reason     Reason
	Height     int64  // the block it was read at; 0 unknown
	Codec      string // Grpc-Metadata-Content-Type of a node of the SDK that answers by gRPC
	Node       string // name of the node that said so; "" for none
	Latest     int64  // newest height that a refusal for a pruned one names; 0 for none
	NoPath     bool   // of a request of cost Unknown: the node does not have the path
	Sound      bool   // Story alone, of a failure (Other): the same node reads something else at that height
}

// Reason is what an answer means.
type Reason int

// The reasons; each but OK and Other is proved by recordings of a real node.
const (
	OK           Reason = iota
	NotFound            // no such thing, or no such path
	BadInput            // the request cannot be answered by any node
	Pruned              // this node no longer has the height; another may
	FutureHeight        // this node does not have the height yet
	Other               // a failure of the node
	Refused             // Cosmos alone: the state's own no, at Height
	Ambiguous           // Cosmos alone: the height cannot be read, or nothing was told of it
	Rejected            // Story alone, and never of a Pool: a failure that its caller takes for the input's ([Answer].Sound)
)

// String is the reason as a metric label.
func (r Reason) String() string {
	return [...]string{"ok", "not_found", "bad_input", "pruned", "future_height", "other", "refused", "unread", "rejected"}[min(max(r, OK), Rejected)]
}

// Status is the HTTP status the reason means.
func (r Reason) Status() int {
	return [...]int{200, 404, 400, 404, 400, 502, 502, 502, 400}[min(max(r, OK), Rejected)]
}
