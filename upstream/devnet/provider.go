package devnet

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// maxBatch is the maximum number of contracts in a batch.
const maxBatch = 100

// A provider simulates Alchemy's NFT API v3 for the seeded collections: it knows most of them, some in part, and a few
// not at all.
type provider struct {
	seed  uint64
	index map[string]int // by lower-case address

	contracts []json.RawMessage // templates for an address without a contract, an unknown contract, and other contracts
}

//go:embed contracts.jsonl
var contractLines []byte

func newProvider(o Options) http.Handler {
	p := &provider{seed: o.Seed, index: make(map[string]int, o.Collections), contracts: state.Lines[json.RawMessage](contractLines)}
	for i := range o.Collections {
		p.index[collectionAddress(o.Seed, i)] = i
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nft/v3/{key}/getContractMetadataBatch", p.serveBatch)
	return mux
}

func (p *provider) serveBatch(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ContractAddresses []string `json:"contractAddresses"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request)
	if n := len(request.ContractAddresses); err != nil || n == 0 || n > maxBatch {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"got %d contract addresses, want 1 to %d"}}`, n, maxBatch), http.StatusBadRequest)
		return
	}
	contracts := make([]json.RawMessage, len(request.ContractAddresses))
	for i, name := range request.ContractAddresses {
		contracts[i] = p.contract(name)
	}
	slices.Reverse(contracts) // the order differs from that of the request
	reply(w, map[string]any{"contracts": contracts})
}

// contract describes the contract at an address, or says that there is no contract.
func (p *provider) contract(address string) json.RawMessage {
	i, known := p.index[strings.ToLower(address)]
	if len(address) == len(GroupNFT) {
		address = capitals(address)
	}
	d, which := state.Digest(p.seed, "contract", int64(i)), 0
	switch {
	case known && d[0]%16 == 0: // the contract exists, but nothing else is known
		which = 1
	case known:
		which = 2 + int(d[1])%(len(p.contracts)-2)
	}
	return json.RawMessage(os.Expand(string(p.contracts[which]), func(name string) string {
		if name == "i" {
			return strconv.Itoa(i)
		}
		quoted := string(encode(address))
		return quoted[1 : len(quoted)-1]
	}))
}
