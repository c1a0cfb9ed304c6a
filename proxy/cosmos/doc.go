// Package cosmos is the interface to the queries of any Cosmos SDK chain: the REST API that
// grpc-gateway makes of the modules' queries, served by the block.
//
// A request goes, top to bottom:
//
//  1. rows.go has the table, and the row of the path: how its answers are asked for and kept;
//  2. canonical.go has package dialect bring the request into its one spelling, by the kinds of its
//     fields (kinds.go): the cache key and what the node is asked;
//  3. heights.go reads the blocks that the request names;
//  4. endpoint.go has package blocks find the block at which it is answered and ask the cache, and adds
//     the heights to the answer;
//  5. origin.go, on a miss, makes an entry of the node's answer;
//  6. pass.go asks the node for what is never kept, and sends what clients post;
//  7. failure.go writes what failed on the way in the form of the node's errors.
//
// selection.go names the keys of an address, to be purged.
package cosmos
