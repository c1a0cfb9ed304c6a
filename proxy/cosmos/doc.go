// Package cosmos is the interface to the queries of any Cosmos SDK chain: the REST API that
// grpc-gateway makes of the modules' queries, served by the block.
//
// A request goes, top to bottom:
//
//  1. package dialect finds the row of the path (rows.go), which says how its answers are asked for and kept,
//     and brings the request into its one spelling by the kinds of its fields (kinds.go);
//  2. heights.go reads the blocks that the request names;
//  3. origin.go, on a miss, makes an entry of the node's answer;
//  4. endpoint.go adds the heights to the answer;
//  5. pass.go asks the node for what is never kept, and sends what clients post;
//  6. failure.go writes what failed on the way in the form of the node's errors.
package cosmos
