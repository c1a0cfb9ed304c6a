// Package indexer fills a collection store from the events of the chain's execution client.
//
// [Indexer.Run] repeats these steps:
//
//  1. run.go reads the store's cursor, or finds the first block (start.go), and reads the head of the
//     chain (head.go).
//  2. fill.go divides the blocks between them into windows, fetches some windows ahead, and checks by
//     parent hashes that each window continues the previous one. Parts of windows that arrive while
//     others are being applied are joined.
//  3. fetch.go reads a window from an endpoint, in parts if it returns less: its head, the logs, and the
//     first and last block in one batch. The batch becomes smaller if the endpoint refuses it, and goes to another endpoint
//     if one fails (package evm). At the head of the chain it reads each block's header, and before it some
//     headers of blocks without logs nearby. If a header promises logs that are missing, the block's logs are
//     requested until they match the header (bloom.go).
//  4. decode.go decodes the logs into events in the order of their positions, without duplicates.
//  5. tally.go counts the events by collection. It looks up the owners of IPs and disputes in the store,
//     and then on the chain (resolve.go).
//  6. confirm.go compares the hashes with another endpoint. compare.go compares the logs, unless all
//     headers were read.
//  7. The store applies the counts, the learned owners and the new cursor in one transaction, provided
//     that its cursor is still at the beginning of the window.
//
// So every event counts once, even if the process dies or several indexers share a store. No single
// response decides what counts: hashes, parents and logs must agree, permanent data is
// read twice, and doubtful responses are read again if they contradict each other or the store. The
// exception is a block at the head without logs: the bloom in its header is believed.
package indexer
