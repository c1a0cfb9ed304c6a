// Package state reads values of a chain's state. A value is named by a gRPC method and the bytes
// of its request, and is the bytes of the response: a node gives the same by abci_query of its
// RPC. Each value is read once a block, whichever interface asks for it, and is kept as these
// bytes. Each interface makes its own answer of them (forms.go).
//
// An interface adds one kind of reads, and asks of values by their queries:
//
//	values := state.New(reader, kind)
//	q := values.Query(method, message, heights)
//	answer, err := reader.Lookup(ctx, request, record, q, tip)
//	state.Member(answer.Entry) // for the RPC
//
// values.go says which methods tell of the state, and how a value is named; origin.go asks the
// nodes.
package state
