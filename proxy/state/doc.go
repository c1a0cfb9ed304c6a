// Package state reads values of a chain's state. A value is identified by a gRPC method and the bytes of its
// request, and consists of the bytes of the response. A node returns the same bytes by gRPC and by abci_query
// of its RPC. Each value is read once per block for all APIs, and each API builds its own response from it
// (answers.go).
//
// An API adds two kinds of reads, for the state and for fixed values, and looks values up by queries:
//
//	values := state.New(options, reader, kind, found, state.RPC)
//	q := values.Read(state.Request{Method: method, Message: message}, heights)
//	answer, err := values.Lookup(ctx, request, q, tip)
//	state.AppendValue(nil, answer.Entry.Body, values.Height(q, &answer)) // for the RPC; Response for gRPC
//
// methods.go classifies methods, and values.go makes the keys of values. ask.go reads the nodes by gRPC or by
// abci_query, which takes the lock of the consensus. The errors of the two differ, so each API caches its own
// errors (origin.go). If no node offers gRPC, gRPC statuses are derived from the RPC's errors (status.go).
package state
