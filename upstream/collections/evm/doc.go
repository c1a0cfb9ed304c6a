// Package evm calls the execution clients of a chain by JSON-RPC.
//
// [Pool.Try] chooses an endpoint, checks its chain id and calls a work function with it. If that fails, it chooses
// another endpoint (pool.go). The package learns how many blocks and calls an endpoint accepts per request
// (endpoint.go, window.go). A [Session] keeps answers while the work is retried, and checks that they come from a
// server that has reached the wanted block, because an endpoint may be a load balancer with a lagging server
// (session.go). client.go and answer.go send requests and decode responses.
package evm
