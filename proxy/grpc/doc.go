// Package grpc is the gRPC of a node, and its gRPC-Web: any method, without its schema.
//
// A call goes, top to bottom:
//
//  1. server.go takes it from its connection, and makes the request of HTTP of it that
//     limits, keys and records know; web.go does both for gRPC-Web. receive.go reads messages in
//     pieces, within the memory for request bodies;
//  2. handler.go says what kind of method it is;
//  3. call.go answers it with a value of the state (package state), which is read at the tip, or at
//     the height in x-cosmos-block-height, once a block, or with what a node says of itself.
//     broadcast.go sends a transaction, once. pass.go passes all else on as a stream;
//  4. replay.go answers a call for a value in the lane of its connection, before all that, when it
//     comes again;
//  5. the status of what is not answered is the node's, or is made of a failure (handler.go).
//
// Messages are bytes here. The headers tell the height, as a node's do, and beside that
// cache-status; where no handler of a method has run there are none.
//
// Four things differ from a node. An answer is not compressed, also where the request is: it counts
// among what clients have not read.
// x-cosmos-block-height that comes twice is refused, where a node reads the newest block. A message
// that is cut off is INTERNAL, not UNKNOWN. Where no node's gRPC is configured the statuses are made
// of the RPC's errors, whose codes tell less: an error of a codespace other than sdk is UNKNOWN with
// the RPC's text.
package grpc
