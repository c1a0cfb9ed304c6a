package node

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream/node/queue"
)

// AtTip as Request.Height selects the newest block that is known when the request leaves the queue. If none is known,
// the node's latest block is read.
const AtTip int64 = -1

// A Request is one read.
type Request struct {
	Path       string  // canonical, starts with /, not percent-encoded
	Query      string  // encoded, without ?
	PageKey    string  // Story only: the raw bytes of the page key, which is not in Query and is sent in the node's form
	Keys       KeyForm // Story only: the form of the page key in Query. If a node of this form is known, no other one is used
	Height     int64   // AtTip, a height to read at, or 0 for the node's latest
	Unpinned   bool    // Height only selects the node, which reads at its latest height
	IsMethod   bool    // SDK only: the path is that of a gRPC method, so the node's answer has the headers of its gateway
	Cost       Cost
	Client     string      // the client, for fair queueing
	Call       *Call       // a CometBFT RPC call instead of Path, Query and Post; may be nil
	Invoke     *Invocation // a gRPC call instead of Path, Query and Post; may be nil
	Post       *Post       // the body of a POST request; nil for GET
	OneNode    bool        // it is sent to one node, even if that fails, because it is expensive
	Miss       bool        // no older answer is available: it precedes the client's other requests
	Background bool        // yields to foreground requests, and waits for its turn until its context ends
	Ahead      bool        // read ahead: it is sent only if there is spare capacity, and does not wait
}

func (r Request) rest() bool { return r.Call == nil && r.Invoke == nil }

// readsState reports whether an answer reveals which heights of the state a node has. Unpinned calls read blocks.
func (r Request) readsState() bool { return r.Cost != Unknown && (r.rest() || !r.Unpinned) }

// slow reports whether a request waits for a block. It does not queue with reads.
func (r Request) slow() bool { return r.Call != nil && r.Call.Slow }

// writes reports whether a request may change state, so that it must not be repeated.
func (r Request) writes() bool {
	return r.Post != nil && !r.Post.Reads || r.Call != nil && (r.Call.Write || r.Cost == Unknown) || r.Invoke != nil && r.Invoke.Write
}

// isSentOnce reports whether a request that a node may have received is sent to no other node.
func (r Request) isSentOnce() bool { return r.OneNode || r.writes() }

func (r Request) sentHeight(height int64) int64 {
	if r.Unpinned {
		return 0
	}
	return height
}

func (r Request) queued() queue.Request {
	return queue.Request{Client: r.Client, Cost: r.Cost, Miss: r.Miss, Background: r.Background, Ahead: r.Ahead}
}

// A Post is the body of a POST request.
type Post struct {
	Body  []byte
	Type  string // Content-Type
	Reads bool   // it changes no state, so it may be sent again, also to another node
}

// Cost is the cost of a request for the node.
type Cost = queue.Cost

// The cost classes.
const (
	Cheap   = queue.Cheap
	Page    = queue.Page
	Scan    = queue.Scan
	Unknown = queue.Unknown
)

// An Answer is a node's response, including refusals.
type Answer struct {
	Status     int    // HTTP status for the client. Story: 200, 400, 404 or 502. Cosmos and Call.Target: the node's. Other calls and invocations: 200 or 500
	NodeStatus int    // HTTP status of the node; for Story 200, 404 or, for every failure, 500
	Type       string // Content-Type
	Body       []byte // as received; valid JSON if Reason is OK
	Text       string // the node's error text, decoded; "" on success
	Reason     Reason
	Height     int64         // the height at which it was read; 0 if unknown
	Codec      string        // Grpc-Metadata-Content-Type of an SDK node that uses gRPC
	Latest     int64         // newest height named by the refusal of a pruned one; 0 if none
	NoPath     bool          // the node does not have the path of a request of cost Unknown
	Cached     bool          // another tipcache sent it, perhaps from its cache, so it proves no height
	Age        time.Duration // time since it was read, if Cached
	Unkept     bool          // it must not be cached: it speaks of the node and not of the request or the state, or nodes contradict each other
	Brief      bool          // it is cached only briefly: only the nodes' agreement shows that it is part of the state
	Unsettled  bool          // a state read at Height may be that of the next block: see [Pool.Fetch]
	NodeWorks  bool          // Story only, if Reason is Other: a probe can read this height, so the request may have caused the failure
	Doubt      Doubt         // of a refusal: whether another node may say something else
	Code       codes.Code    // of a refusal of an SDK node by REST or gRPC
}

// Reason classifies an answer.
type Reason int

// The reasons.
const (
	OK           Reason = iota
	NotFound            // no such object or path
	BadInput            // no node can answer the request
	Pruned              // this node has pruned the height; another may have it
	FutureHeight        // this node does not have the height yet
	Other               // a failure of the node
	Refused             // Cosmos only: an error of the state, at Height
	Ambiguous           // Cosmos only: an error whose cause the response does not show; its metric label is "unread", which must not change
	Rejected            // Story only, set by callers of a Pool: a failure caused by the input ([Answer].NodeWorks)
)

// String returns the metric label of the reason.
func (r Reason) String() string {
	return [...]string{"ok", "not_found", "bad_input", "pruned", "future_height", "other", "refused", "unread", "rejected"}[r]
}

// Status returns the HTTP status for the reason.
func (r Reason) Status() int {
	return [...]int{200, 404, 400, 404, 400, 502, 502, 502, 400}[r]
}
