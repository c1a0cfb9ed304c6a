// Package node sends requests to the nodes of one chain. It contains a client per interface of a node, with
// one table of errors, and the pool that chooses a node for each request and limits its load.
//
// A request takes these steps:
//
//  1. Pool.Fetch (fetch.go) chooses an endpoint that has the height and responds well (choose.go).
//  2. The request waits there for its turn, in the line of its client. The number of concurrent requests
//     adapts to the node: a small one works best with two to four, and announces its blocks late with
//     more than eight.
//  3. AtTip is replaced by a height when the request leaves the queue.
//  4. The endpoint (endpoint.go) sends it to one of the node's servers: REST (client.go), CometBFT's RPC (call.go)
//     or gRPC (grpc.go, invoke.go, stream.go). Each is behind a circuit breaker of its own (server.go). story.go
//     and cosmos.go interpret REST responses. One table (texts.go) maps the texts of errors to reasons,
//     and one (doubt.go) says which errors of an SDK node speak only of this node.
//  5. If the endpoint does not respond, has pruned the height or lags, or if another one may say something else, the request
//     goes to another endpoint. blame.go decides whether the first one or the request is to blame for a failure. If no
//     endpoint reaches the newest block, the newest block of an endpoint is read. unanswered.go holds the errors for
//     requests that no endpoint could answer.
//
// An endpoint can be another tipcache, a parent (parent.go). dialect.go determines which REST API the nodes
// serve, and pagekeys.go the form of their page keys. execution.go maps heights to blocks of the execution client.
// members.go adds and removes endpoints, and health.go probes them.
//
// The pool knows each endpoint's newest height and its presumed oldest one, from /status and from
// refusals. The oldest height only orders endpoints: an endpoint that has pruned a height is tried
// last, and a height is refused only after all endpoints have refused it.
//
// Package heights follows the heights and checks them. Package queue schedules the requests to an endpoint.
package node
