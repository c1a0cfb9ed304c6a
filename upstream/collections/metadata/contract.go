package metadata

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A Contract is the documented collectionMetadata. Fields that the provider does not return, or returns as null or empty, are
// omitted. The tags also document the API, whose servers may return null and other fields.
type Contract struct {
	_                   struct{}    `additionalProperties:"true"`
	Chain               string      `json:"chain,omitempty" nullable:"true" doc:"Network name."`
	Address             exact       `json:"address" required:"false" nullable:"true"`
	Name                text        `json:"name,omitempty" nullable:"true"`
	Symbol              text        `json:"symbol,omitempty" nullable:"true"`
	TotalSupply         amount      `json:"totalSupply,omitempty" nullable:"true"`
	TokenType           exact       `json:"tokenType,omitempty" nullable:"true" example:"ERC721"`
	ContractDeployer    exact       `json:"contractDeployer,omitempty" nullable:"true"`
	DeployedBlockNumber int64       `json:"deployedBlockNumber,omitempty" nullable:"true"`
	Marketplace         Marketplace `json:"marketplaceMetadata" required:"false"`
}

// A Marketplace is the documented marketplaceMetadata, which is always present.
type Marketplace struct {
	_                     struct{} `additionalProperties:"true"`
	FloorPrice            Number   `json:"floorPrice,omitempty" nullable:"true"`
	CollectionName        text     `json:"collectionName,omitempty" nullable:"true"`
	CollectionSlug        exact    `json:"collectionSlug,omitempty" nullable:"true"`
	SafelistRequestStatus exact    `json:"safelistRequestStatus,omitempty" nullable:"true"`
	ImageURL              exact    `json:"imageUrl,omitempty" nullable:"true"`
	Description           text     `json:"description,omitempty" nullable:"true"`
	ExternalURL           exact    `json:"externalUrl,omitempty" nullable:"true"`
	TwitterUsername       exact    `json:"twitterUsername,omitempty" nullable:"true"`
	DiscordURL            exact    `json:"discordUrl,omitempty" nullable:"true"`
	BannerImageURL        exact    `json:"bannerImageUrl,omitempty" nullable:"true"`
	LastIngestedAt        exact    `json:"lastIngestedAt,omitempty" nullable:"true"`
}

// blank reports whether the provider's record is empty, so it does not know the contract.
func (c *Contract) blank() bool {
	return c.Name == "" && c.Symbol == "" && c.ContractDeployer == ""
}

// describe encodes a contract as the documented JSON, without possible keys of the provider.
func (s *Service) describe(c Contract) []byte {
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
	return (*Number)(a).UnmarshalJSON(text)
}

// A Number is a JSON number with its original digits. Null and numbers beyond the range of floats, 1.8e308, count as absent.
type Number string

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(text []byte) error {
	*n = ""
	if _, err := strconv.ParseFloat(string(text), 64); err == nil && len(text) <= collections.MaxText && text[0] != '"' {
		*n = Number(text)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }
