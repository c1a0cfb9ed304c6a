package metadata

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A contract is the documented collectionMetadata. Fields that the provider does not return, or returns as null or empty, are
// omitted.
type contract struct {
	Chain               string      `json:"chain,omitempty"`
	Address             exact       `json:"address"`
	Name                text        `json:"name,omitempty"`
	Symbol              text        `json:"symbol,omitempty"`
	TotalSupply         amount      `json:"totalSupply,omitempty"`
	TokenType           exact       `json:"tokenType,omitempty"`
	ContractDeployer    exact       `json:"contractDeployer,omitempty"`
	DeployedBlockNumber int64       `json:"deployedBlockNumber,omitempty"`
	Marketplace         marketplace `json:"marketplaceMetadata"`
}

// A marketplace is the documented marketplaceMetadata, which is always present.
type marketplace struct {
	FloorPrice            number `json:"floorPrice,omitempty"`
	CollectionName        text   `json:"collectionName,omitempty"`
	CollectionSlug        exact  `json:"collectionSlug,omitempty"`
	SafelistRequestStatus exact  `json:"safelistRequestStatus,omitempty"`
	ImageURL              exact  `json:"imageUrl,omitempty"`
	Description           text   `json:"description,omitempty"`
	ExternalURL           exact  `json:"externalUrl,omitempty"`
	TwitterUsername       exact  `json:"twitterUsername,omitempty"`
	DiscordURL            exact  `json:"discordUrl,omitempty"`
	BannerImageURL        exact  `json:"bannerImageUrl,omitempty"`
	LastIngestedAt        exact  `json:"lastIngestedAt,omitempty"`
}

// blank reports whether the provider's record is empty, so it does not know the contract.
func (c *contract) blank() bool {
	return c.Name == "" && c.Symbol == "" && c.ContractDeployer == ""
}

// describe encodes a contract as the documented JSON, without possible keys of the provider.
func (s *Service) describe(c contract) []byte {
	c.Chain = s.o.Chain
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // keep ampersands in image URLs
	_ = enc.Encode(c)        // cannot fail: strings and numbers read from JSON
	return []byte(s.provider.secret.Replace(strings.TrimSpace(body.String())))
}

// A text is a JSON string of prose, truncated to collections.MaxText. As for the types below, other JSON values count as absent.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s) // leaves s empty on failure
	*t = text(collections.CutText(s))
	return nil
}

// An exact is a JSON string that must not be truncated, such as a URL. If it is longer than collections.MaxText, it counts as
// absent.
type exact string

func (x *exact) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s) // leaves s empty on failure
	if *x = exact(s); len(s) > collections.MaxText {
		*x = ""
	}
	return nil
}

// An amount is an integer in a JSON string. Providers may also send a number. An empty or too long one counts as absent.
type amount string

func (a *amount) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return (*exact)(a).UnmarshalJSON(text)
	}
	return (*number)(a).UnmarshalJSON(text)
}

// A number is a JSON number with its original digits. Null and numbers beyond the range of floats, 1.8e308, count as absent.
type number string

func (n *number) UnmarshalJSON(text []byte) error {
	*n = ""
	if _, err := strconv.ParseFloat(string(text), 64); err == nil && len(text) <= collections.MaxText && text[0] != '"' {
		*n = number(text)
	}
	return nil
}

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }
