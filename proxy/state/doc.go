// Package state reads values of a chain's state. A value is named by a gRPC method and the bytes
// of its request, and is the bytes of the response: a node gives the same by abci_query of its
// RPC. Each value is read once a block, whichever interface asks for it, and is kept as these
// bytes. Each interface makes its own answer of them (answers.go).
//
// An interface adds one kind of reads, and asks of values by their queries:
//
//	values := state.New(options, reader, kind, state.RPC)
//	q := values.Query(state.Request{Method: method, Message: message}, heights)
//	answer, err := values.Lookup(ctx, request, record, q, tip)
//	state.AppendValue(nil, answer.Entry.Body, values.Height(q, &answer)) // for the RPC; Response for gRPC
//
// methods.go says which methods tell of the state, and values.go how a value is named. ask.go asks the nodes
// in one way or the other: abci_query takes the lock of the consensus, and gRPC does not. What a
// node says in place of a value differs between the two, so that each interface has errors of its
// own (origin.go), but where no node offers gRPC: then its statuses are made of the RPC's errors
// (status.go).
package state
