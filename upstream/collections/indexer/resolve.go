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

// Selectors of the calls that tell an id's owner.
const (
	tokenSelector    = "0xfc0c546a" // IPAccount.token() returns (chainId, tokenContract, tokenId)
	disputesSelector = "0x564a565d" // DisputeModule.disputes(uint256) returns a dispute, its targetIpId first
)

// findIPs finds the owners of IPs: in the store, or else by the IP accounts' tokens.
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

// findDisputes finds the owners of disputes: in the store, or else by their targets' owners.
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

// An ethCall is the argument of eth_call.
type ethCall struct {
	To   string `json:"to"`
	Data string `json:"data"`
}

// callWords calls contracts and returns of each the word with the index, an address; zero where
// there is no contract or it refuses. The state asked for is the newest, which no client has
// pruned, of an endpoint that has come as far as head. What is learned stays for good, so all is
// asked again, of another endpoint where there is one, until it is certain.
func (x *Indexer) callWords(ctx context.Context, calls []ethCall, index int, head int64) ([]ledger.Address, error) {
	words, told, left := make([]ledger.Address, len(calls)), make([][]ledger.Address, len(calls)), make([]int, len(calls))
	for i := range left {
		left[i] = i
	}
	var by *evm.Endpoint
	for try := 0; len(left) > 0; try++ {
		if try == maxContradictions {
			return nil, fmt.Errorf("%w: whose %v is, was told to be each of %v", errInconsistent, calls[left[0]], told[left[0]])
		}
		// In another order, so that not the same server of two has to answer.
		rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		some := make([]ethCall, len(left))
		for i, n := range left {
			some[i] = calls[n]
		}
		got, from, err := x.words(ctx, by, some, index, head)
		if err != nil {
			return nil, err
		}
		for i, n := range left {
			words[n], told[n] = got[i], append(told[n], got[i])
		}
		left, by = slices.DeleteFunc(left, func(n int) bool { return certain(told[n]) }), from
	}
	return words, nil
}

// certain reports whether the last of the words that were told of an id stands: an
// address that was told twice, or that there is none where nothing else was told in
// several tries. A server that lags, or of another fork, tells of none.
func certain(told []ledger.Address) bool {
	last := len(told) - 1
	if told[last] != (ledger.Address{}) {
		return slices.Contains(told[:last], told[last])
	}
	return len(told) >= 4 && !slices.ContainsFunc(told, func(a ledger.Address) bool { return a != ledger.Address{} })
}

// words are those of callWords by endpoints other than one, and the last of these.
func (x *Indexer) words(ctx context.Context, than *evm.Endpoint, calls []ethCall, index int, head int64) (words []ledger.Address, by *evm.Endpoint, err error) {
	for some := range slices.Chunk(calls, callsAtOnce) {
		err := x.pool.TryOther(ctx, than, func(s *evm.Session) error {
			got, err := someWords(ctx, s, some, index, head)
			words, by = append(words, got...), s.Endpoint
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return words, by, nil
}

// callsAtOnce is how many calls are a piece of work.
const callsAtOnce = 500

// someWords returns all words, or none.
func someWords(ctx context.Context, s *evm.Session, some []ethCall, index int, head int64) ([]ledger.Address, error) {
	state := "latest"
	if s.Single() { // the next call may come to a server that lags, which refuses the number of a block it lacks
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
	said, err := a.Text()
	if err != nil {
		return word, err
	}
	data := strings.TrimPrefix(said, "0x")
	if len(data) < (index+1)*wordDigits {
		return word, nil
	}
	if word, err = addressWord(data[index*wordDigits : (index+1)*wordDigits]); err != nil {
		return ledger.Address{}, nil //nolint:nilerr // it is no address
	}
	return word, nil
}
