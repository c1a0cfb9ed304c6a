package devnet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBatch is how many contracts a batch may name.
const maxBatch = 100

// A provider answers as Alchemy's NFT API v3 does, about the seeded
// collections: most are known, some only in part, a few not at all.
type provider struct {
	seed  uint64
	index map[string]int // by lower-case address
}

func newProvider(o Options) http.Handler {
	p := &provider{seed: o.Seed, index: make(map[string]int, o.Collections)}
	for i := range o.Collections {
		p.index[collectionAddress(o.Seed, i).String()] = i
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
	slices.Reverse(contracts) // the order is not that of the request
	reply(w, map[string]any{"contracts": contracts})
}

// unknown is a contract of which nothing but the type is known.
func unknown(address, tokenType string) json.RawMessage {
	return fmt.Appendf(nil, `{"address":%s,"name":null,"symbol":null,"totalSupply":null,"tokenType":%q,"contractDeployer":null,"deployedBlockNumber":null,"openSeaMetadata":null}`,
		encode(address), tokenType)
}

// contract describes the i-th collection, or says that it is no contract.
func (p *provider) contract(name string) json.RawMessage {
	i, known := p.index[strings.ToLower(name)]
	if raw := new(address); raw.UnmarshalText([]byte(name)) == nil {
		name = raw.checksum()
	}
	d := digest(p.seed, "contract", i)
	switch {
	case !known:
		return unknown(name, "NOT_A_CONTRACT")
	case d[0]%16 == 0: // deployed
		return unknown(name, "UNKNOWN")
	}
	kind, supply := "ERC721", fmt.Sprintf(`"%d"`, 1+int(d[24])<<4)
	if d[1]%4 == 3 {
		kind, supply = "ERC1155", "null"
	}
	return fmt.Appendf(nil, `{"address":%q,"name":"Collection %[2]d","symbol":"COL%[2]d","totalSupply":%[3]s,"tokenType":%[4]q,"contractDeployer":%[5]q,"deployedBlockNumber":%[6]d,"openSeaMetadata":%[7]s}`,
		name, i, supply, kind, addressOf(d[4:]).checksum(), int64(d[2])<<16+int64(d[3])<<8+1, openSea(i, d[25:]))
}

// openSea describes the market of a collection; half of them have none, and
// then every field is null.
func openSea(i int, d []byte) string {
	if d[0]%2 == 0 {
		return `{"floorPrice":null,"collectionName":null,"collectionSlug":null,"safelistRequestStatus":null,"imageUrl":null,"description":null,"externalUrl":null,"twitterUsername":null,"discordUrl":null,"bannerImageUrl":null,"lastIngestedAt":null}`
	}
	return fmt.Sprintf(`{"floorPrice":%v,"collectionName":"Collection %[2]d","collectionSlug":"collection-%[2]d","safelistRequestStatus":"verified","imageUrl":"https://images.example/%[2]d.png",`+
		`"description":"Works & <remixes> of collection %[2]d","externalUrl":null,"twitterUsername":"collection%[2]d","discordUrl":null,"bannerImageUrl":"https://images.example/%[2]d-banner.png","lastIngestedAt":%[3]q}`,
		float64(d[1])/1000, i, firstCollection.Add(time.Duration(d[2])*time.Hour).Format("2006-01-02T15:04:05.000Z"))
}
