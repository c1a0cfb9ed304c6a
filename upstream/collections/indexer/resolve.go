package indexer

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Selectors of the calls that return an id's owner.
const (
	tokenSelector    = "0xfc0c546a" // IPAccount.token() returns (chainId, tokenContract, tokenId)
	disputesSelector = "0x564a565d" // DisputeModule.disputes(uint256) returns a dispute, its targetIpId first
)

// findIPs finds the owners of IPs in the store, or else by calling token() of their accounts.
func (x *Indexer) findIPs(ctx context.Context, c *count, ips []ledger.Address, head int64) error {
	if ips = c.ips.takeUnknown(ips); len(ips) == 0 {
		return nil
	}
	stored, err := x.o.Store.Owners(ctx, ips, nil)
	if err != nil {
		return err
	}
	maps.Copy(c.ips.known, stored.IPs)
	ips = c.ips.takeUnknown(ips)
	calls := make([]ethCall, len(ips))
	for i, ip := range ips {
		calls[i] = ethCall{To: ip.String(), Data: tokenSelector}
	}
	words, err := x.callWords(ctx, calls, 1, head)
	if err != nil {
		return err
	}
	for i, ip := range ips {
		if words[i] != (ledger.Address{}) {
			c.ips.learn(ip, words[i])
		}
	}
	return nil
}

// findDisputes finds the owners of disputes in the store, or else by the owners of their targets.
func (x *Indexer) findDisputes(ctx context.Context, c *count, ids []ledger.Hash, head int64) error {
	if len(ids) == 0 {
		return nil
	}
	stored, err := x.o.Store.Owners(ctx, nil, ids)
	if err != nil {
		return err
	}
	maps.Copy(c.disputes.known, stored.Disputes)
	ids = c.disputes.takeUnknown(ids)
	calls := make([]ethCall, len(ids))
	for i, id := range ids {
		calls[i] = ethCall{To: x.o.Network.Disputes.String(), Data: disputesSelector + hex.EncodeToString(id[:])}
	}
	targets, err := x.callWords(ctx, calls, 0, head)
	if err != nil {
		return err
	}
	none := func(a ledger.Address) bool { return a == ledger.Address{} }
	if err := x.findIPs(ctx, c, slices.DeleteFunc(slices.Clone(targets), none), head); err != nil {
		return err
	}
	for i, id := range ids {
		if collection, known := c.ips.known[targets[i]]; known {
			c.disputes.learn(id, collection)
		}
	}
	return nil
}

type ethCall struct {
	To   string `json:"to"`
	Data string `json:"data"`
}

// callWords calls contracts and returns the word with an index from each result, which is an address. It is zero if there
// is no contract or the call reverts. The calls read the latest state, which no client has pruned, of an endpoint that
// has reached head. The results are stored permanently, so callWords repeats the calls, at another endpoint if one
// works, until the results are certain. After maxContradictions tries it fails.
func (x *Indexer) callWords(ctx context.Context, calls []ethCall, index int, head int64) ([]ledger.Address, error) {
	words, results, left := make([]ledger.Address, len(calls)), make([][]ledger.Address, len(calls)), make([]int, len(calls))
	for i := range left {
		left[i] = i
	}
	var by *evm.Endpoint
	for try := 0; len(left) > 0; try++ {
		if try == maxContradictions {
			return nil, fmt.Errorf("%w: contract call %v returned %v", errInconsistent, calls[left[0]], results[left[0]])
		}
		// In a random order, not always the same server behind a load balancer answers a call.
		rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		some := make([]ethCall, len(left))
		for i, n := range left {
			some[i] = calls[n]
		}
		var got []ledger.Address
		err := x.tryOther(ctx, by, x.o.Grace, func(s *evm.Session) (err error) {
			by = s.Endpoint
			got, err = readWords(ctx, s, some, index, head)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, n := range left {
			words[n], results[n] = got[i], append(results[n], got[i])
		}
		left = slices.DeleteFunc(left, func(n int) bool { return isCertain(results[n]) })
	}
	return words, nil
}

// isCertain reports whether the last result for an id is certain: an address that was returned twice, or zero if all of at
// least four results are zero. A server that lags or is on a fork returns zero.
func isCertain(results []ledger.Address) bool {
	last := len(results) - 1
	if results[last] != (ledger.Address{}) {
		return slices.Contains(results[:last], results[last])
	}
	return len(results) >= 4 && !slices.ContainsFunc(results, func(a ledger.Address) bool { return a != ledger.Address{} })
}

// readWords makes the calls of callWords at one endpoint. It returns all words or an error.
func readWords(ctx context.Context, s *evm.Session, some []ethCall, index int, head int64) ([]ledger.Address, error) {
	state := "latest"
	if s.Endpoint.Single() { // a lagging server behind the same address refuses the number of a block that it lacks
		newest, _, err := s.Poll(ctx, head)
		if err != nil {
			return nil, err
		}
		state, head = evm.Hex(newest), newest
	}
	calls := make([]evm.Call, len(some))
	for i, c := range some {
		calls[i] = evm.Call{Method: "eth_call", Params: []any{c, state}}
	}
	_, answers, err := s.AtHead(ctx, head, calls...)
	if err != nil {
		return nil, err
	}
	words := make([]ledger.Address, len(answers))
	for i, a := range answers {
		if words[i], err = readWord(a, index); err != nil {
			return nil, err
		}
	}
	return words, nil
}

func readWord(a evm.Answer, index int) (word ledger.Address, err error) {
	if a.Err != nil && a.Err.Reverted() {
		return word, nil
	}
	text, err := a.Text()
	if err != nil {
		return word, err
	}
	data := strings.TrimPrefix(text, "0x")
	if len(data) < (index+1)*wordDigits {
		return word, nil
	}
	if word, err = addressWord(data[index*wordDigits : (index+1)*wordDigits]); err != nil {
		return ledger.Address{}, nil //nolint:nilerr // not an address
	}
	return word, nil
}
