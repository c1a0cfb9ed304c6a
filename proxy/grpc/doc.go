// Package grpc serves the gRPC of a node, and its gRPC-Web: any method, without its schema.
//
// The way of a call:
//
//  1. server.go receives it and creates an HTTP request for limits, keys and records; web.go does both for gRPC-Web.
//     receive.go reads messages in pieces, within the memory for request bodies.
//  2. handler.go determines the kind of method.
//  3. call.go answers it with a value of the state (package state), which is read once per block at the tip, or at the
//     height in x-cosmos-block-height. For methods about blocks, transactions and the node, it answers with what a node
//     answers now. broadcast.go sends a transaction, once. pass.go forwards all other methods as streams.
//  4. replay.go answers repeated calls for a value in the fast lane of their connection, before all these steps.
//  5. health.go answers health checks, before all of this.
//  6. The status of a failed call is the node's, or derived from a failure (handler.go).
//
// Messages are opaque bytes. Headers contain the height, as a node's do, and cache-status. There are none if no handler
// of a method has run.
//
// Four things differ from a node. Responses are never compressed, so that the memory of unread ones can be counted. A
// duplicate x-cosmos-block-height is refused, where nodes read the newest block. A truncated message is INTERNAL, not
// UNKNOWN. Without a node's gRPC, statuses are derived from the RPC's less specific errors: an error of a codespace other
// than sdk is UNKNOWN with the RPC's text.
package grpc
