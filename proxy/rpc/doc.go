// Package rpc serves the RPC of CometBFT nodes as wallets use it: one call by POST, several in a batch, a URI by GET,
// and, with package socket, all of them over WebSocket.
//
// The way of a call:
//
//  1. handler.go reads the request in one of its three forms (post.go, uri.go, socket.go). Errors are the node's (package
//     jsonrpc).
//  2. methods.go has a row for each method: its parameters and its freshness class. Parameters are canonicalized
//     (params.go), so that equal calls have one key. Parameters that this server does not understand are passed to the
//     node as they are, which returns its own error.
//  3. batch.go charges the calls of a batch and joins their answers. run.go answers them concurrently at one tip, except
//     for writes and scans, which run alone and in the client's order. call.go reads through package blocks; values of the state come from package
//     state. A read of state without a height is answered at the tip and names the tip's height.
//  4. The answer equals the node's byte for byte, in an envelope with the caller's id.
//
// A POST call answered from memory is registered with the fast lane (package lane), which answers later ones, with any
// id, without these steps (replay.go).
//
// Four things differ from the node. Its Cache-Control, which lets caches keep errors and tips for a day, is replaced by ours.
// A batch may have more than ten calls, and one that is too long fails with status 500, so that clients do not wait for answers.
// status never names a block whose state cannot be read yet (origin.go). tx has the parameter wait (wait.go).
package rpc
