// Package cosmos is the dialect of Cosmos SDK chains: the REST API that grpc-gateway generates from the modules' queries.
//
// A request passes, in this order:
//
//  1. package dialect finds the row of the path (row.go reads rows.txt and outside.txt), and makes the canonical query by the kinds of its fields (kinds.go);
//  2. heights.go reads the blocks that the request names;
//  3. on a miss, origin.go makes an entry of the node's answer;
//  4. endpoint.go adds the heights to the response;
//  5. pass.go passes POST requests to the node;
//  6. failure.go writes failures in the form of the node's errors.
package cosmos
