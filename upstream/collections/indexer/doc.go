// Package indexer fills a collection store from the events of the chain's
// execution client.
//
// [Indexer.Run] goes, top to bottom:
//
//  1. run.go reads the store's cursor, or finds the block to start at
//     (start.go), and the head of the chain;
//  2. fill.go cuts the blocks between them into windows, fetches a few of them
//     ahead, and checks that each continues the one before by its parent hash;
//     windows that come while others are taken over are joined;
//  3. fetch.go asks an endpoint for a window: its head, the logs and the window's
//     first and last block in one batch, cut smaller where the endpoint refuses, of
//     another endpoint where it fails (package evm). At the head of the chain each
//     block's header is read. Logs that a header promises are asked for again where
//     they are missing (bloom.go);
//  4. decode.go makes events of the logs, in the order of their positions, each once;
//  5. tally.go counts them by collection, asking the store, and then the chain
//     (resolve.go), whose IPs and disputes they are;
//  6. confirm.go has another endpoint say the hashes again, and compare.go compares
//     its logs, where not all headers were read;
//  7. the store takes over the counts, the ids learned and the new cursor in one
//     transaction, and only if its cursor is still where the window begins.
//
// So every event counts once, whenever the process dies and however many
// indexers work for one store. One answer of one endpoint settles nothing: hashes,
// parents and logs have to agree, what stays for good is asked for again, and of what
// contradicts itself or the store that which is in doubt.
package indexer
