package metadata

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A contract is the documented collectionMetadata. What the provider does not say, be it null,
// missing or empty, is left out.
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

// A marketplace is the documented marketplaceMetadata, which is always there.
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

// blank reports whether a provider's answer comes down to "never heard of it".
func (c *contract) blank() bool {
	return c.Name == "" && c.Symbol == "" && c.ContractDeployer == ""
}

// describe is the documented JSON, without what may be the provider's key.
func (s *Service) describe(c contract) []byte {
	c.Chain = s.o.Chain
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // image URLs keep their ampersands
	_ = enc.Encode(c)        // strings, and numbers that were read from JSON, always encode
	return []byte(s.provider.secret.Replace(strings.TrimSpace(body.String())))
}

// A text is a JSON string of prose, of which no more than collections.MaxText is kept.
type text string

// UnmarshalJSON takes a string; all else is absent.
func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s) // which leaves it empty
	*t = text(collections.CutText(s))
	return nil
}

// An exact is a JSON string that would be another one if it were cut, such as a URL: a data URI is
// no image then. One that is longer than collections.MaxText is absent.
type exact string

// UnmarshalJSON takes a string; all else is absent.
func (x *exact) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s) // which leaves it empty
	if *x = exact(s); len(s) > collections.MaxText {
		*x = ""
	}
	return nil
}

// An amount is an integer in a JSON string; providers may send a number. Empty
// is absent, and so is one that is too long: cut, it would be another.
type amount string

// UnmarshalJSON takes a string or a number; all else is absent.
func (a *amount) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return (*exact)(a).UnmarshalJSON(text)
	}
	return (*number)(a).UnmarshalJSON(text)
}

// A number is a JSON number, digit for digit. Empty is absent, as null is, and as one is that no
// client could read: floats end at 1.8e308.
type number string

// UnmarshalJSON takes a number; all else is absent.
func (n *number) UnmarshalJSON(text []byte) error {
	*n = ""
	if _, err := strconv.ParseFloat(string(text), 64); err == nil && len(text) <= collections.MaxText && text[0] != '"' {
		*n = number(text)
	}
	return nil
}

// MarshalJSON writes the number as it was read.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }
