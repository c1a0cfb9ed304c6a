// Package rpc is the RPC of a node's CometBFT, as wallets speak it: one call by POST, many in
// a batch, a URI by GET, and with package socket all of them over WebSocket.
//
// A call goes, top to bottom:
//
//  1. handler.go reads the body, in one of the three forms (post.go, uri.go), whose errors are the
//     node's own (package jsonrpc);
//  2. methods.go has a row for each method: its parameters, and what may be kept of its
//     answers for how long. Parameters that the node reads in several ways (params.go) come
//     to one key; parameters that it does not understand go to the node as they are, which says
//     what is wrong with them;
//  3. batch.go charges the calls of a batch and puts their answers together; run.go has them
//     answered at the same time, by one tip, but for calls that send a transaction; call.go asks
//     package blocks. Of state that is read at a height without naming one the
//     tip's is given, with the tip's height beside it;
//  4. the answer is the node's to the byte, in an envelope with the caller's id.
//
// A call by POST that memory has answered is answered in the fast lane from then on, under whatever id
// (replay.go).
//
// Values of the state are those of package state, of which the members are made.
//
// Three things differ from the node. Its Cache-Control, which tells caches to keep errors
// and tips for a day, is replaced by ours. A batch may have more than its ten calls; one
// that is too long is answered by an error for each call, so that no client waits for ever.
// And status names the block that state can be read at, never the one after it (origin.go).
package rpc
