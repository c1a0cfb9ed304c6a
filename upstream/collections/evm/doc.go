// Package evm asks the execution clients of a chain over JSON-RPC.
//
// [Pool.Try] picks an endpoint, makes sure that it is of the right chain, and
// lets a piece of work ask it; where that fails another endpoint is picked
// (pool.go). How many blocks and calls an endpoint answers at once is found out
// (endpoint.go, window.go). A [Session] keeps what was answered while the work is
// tried again, and sees to it that answers come from a server that has got as far as
// is wanted: an endpoint may be a load balancer before several of which one lags
// (session.go). The exchange itself is in client.go and answer.go.
package evm
