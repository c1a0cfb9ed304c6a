package devnet

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
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
	mux   *http.ServeMux
}

func newProvider(o Options) *provider {
	p := &provider{seed: o.Seed, index: make(map[string]int, o.Collections), mux: http.NewServeMux()}
	for i := range o.Collections {
		p.index[collectionAddress(o.Seed, i).String()] = i
	}
	p.mux.HandleFunc("GET /nft/v3/{key}/getContractMetadata", p.serveOne)
	p.mux.HandleFunc("POST /nft/v3/{key}/getContractMetadataBatch", p.serveBatch)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

func (p *provider) serveOne(w http.ResponseWriter, r *http.Request) {
	address := r.URL.Query().Get("contractAddress")
	if address == "" {
		refuse(w, "contractAddress is required")
		return
	}
	reply(w, p.contract(address))
}

func (p *provider) serveBatch(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ContractAddresses []string `json:"contractAddresses"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil {
		refuse(w, "malformed body")
		return
	}
	if n := len(request.ContractAddresses); n == 0 || n > maxBatch {
		refuse(w, fmt.Sprintf("got %d contract addresses, want 1 to %d", n, maxBatch))
		return
	}
	contracts := make([]contract, len(request.ContractAddresses))
	for i, address := range request.ContractAddresses {
		contracts[i] = p.contract(address)
	}
	slices.SortFunc(contracts, func(a, b contract) int { return shuffled(a) - shuffled(b) })
	reply(w, map[string][]contract{"contracts": contracts})
}

// shuffled orders contracts in a way that has nothing to do with the request.
func shuffled(c contract) int {
	h := fnv.New32a()
	h.Write([]byte(c.Address))
	return int(h.Sum32() >> 1)
}

func refuse(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	reply(w, map[string]any{"error": map[string]string{"message": text}})
}

// A contract is what the provider says about one. Any field but the first and
// the token type can be null.
type contract struct {
	Address             string   `json:"address"` // checksummed
	Name                *string  `json:"name"`
	Symbol              *string  `json:"symbol"`
	TotalSupply         *string  `json:"totalSupply"`
	TokenType           string   `json:"tokenType"`
	ContractDeployer    *string  `json:"contractDeployer"`
	DeployedBlockNumber *int64   `json:"deployedBlockNumber"`
	OpenSeaMetadata     *openSea `json:"openSeaMetadata"`
}

type openSea struct {
	FloorPrice            *float64 `json:"floorPrice"`
	CollectionName        *string  `json:"collectionName"`
	CollectionSlug        *string  `json:"collectionSlug"`
	SafelistRequestStatus *string  `json:"safelistRequestStatus"`
	ImageURL              *string  `json:"imageUrl"`
	Description           *string  `json:"description"`
	ExternalURL           *string  `json:"externalUrl"`
	TwitterUsername       *string  `json:"twitterUsername"`
	DiscordURL            *string  `json:"discordUrl"`
	BannerImageURL        *string  `json:"bannerImageUrl"`
	LastIngestedAt        *string  `json:"lastIngestedAt"`
}

// contract describes the i-th collection, or says that it is no contract.
func (p *provider) contract(address string) contract {
	i, known := p.index[strings.ToLower(address)]
	raw, err := parseHex(address)
	if err != nil || len(raw) != 20 {
		return contract{Address: address, TokenType: "NOT_A_CONTRACT"}
	}
	c := contract{Address: addressOf(raw).checksum(), TokenType: "NOT_A_CONTRACT"}
	if !known {
		return c
	}
	d := digest(p.seed, "contract", i)
	if d[0]%16 == 0 { // deployed, but nothing is known
		c.TokenType = "UNKNOWN"
		return c
	}
	c.Name, c.Symbol = new(fmt.Sprintf("Collection %d", i)), new(fmt.Sprintf("COL%d", i))
	c.TokenType = []string{"ERC721", "ERC721", "ERC721", "ERC1155"}[d[1]%4]
	c.ContractDeployer = new(addressOf(d[4:]).checksum())
	c.DeployedBlockNumber = new(int64(d[2])<<16 + int64(d[3])<<8 + 1)
	if c.TokenType == "ERC721" {
		c.TotalSupply = new(strconv.Itoa(1 + int(d[24])<<4))
	}
	c.OpenSeaMetadata = p.openSea(i, d[25:])
	return c
}

// openSea describes the market of a collection; half of them have none, and
// then every field is null.
func (p *provider) openSea(i int, d []byte) *openSea {
	if d[0]%2 == 0 {
		return &openSea{}
	}
	m := &openSea{
		FloorPrice: new(float64(d[1]) / 1000), CollectionName: new(fmt.Sprintf("Collection %d", i)),
		CollectionSlug: new(fmt.Sprintf("collection-%d", i)), SafelistRequestStatus: new("verified"),
		ImageURL:       new(fmt.Sprintf("https://images.example/%d.png", i)),
		Description:    new("Works & <remixes> of collection " + strconv.Itoa(i)),
		BannerImageURL: new(fmt.Sprintf("https://images.example/%d-banner.png", i)),
		LastIngestedAt: new(firstCollection.Add(time.Duration(d[2]) * time.Hour).Format("2006-01-02T15:04:05.000Z")),
	}
	if d[3]%2 == 0 {
		m.TwitterUsername, m.DiscordURL = new(fmt.Sprintf("collection%d", i)), new(fmt.Sprintf("https://discord.gg/collection%d", i))
	}
	return m
}
