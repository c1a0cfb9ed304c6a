package metadata

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// A contract is the documented collectionMetadata. Its types are the documented
// ones, none of which is null: what the provider does not say, be it null,
// missing or empty, is left out.
type contract struct {
	Chain               string      `json:"chain,omitempty"`
	Address             string      `json:"address"`
	Name                string      `json:"name,omitempty"`
	Symbol              string      `json:"symbol,omitempty"`
	TotalSupply         amount      `json:"totalSupply,omitempty"`
	TokenType           string      `json:"tokenType,omitempty"`
	ContractDeployer    string      `json:"contractDeployer,omitempty"`
	DeployedBlockNumber int64       `json:"deployedBlockNumber,omitempty"`
	Marketplace         marketplace `json:"marketplaceMetadata"`
}

// A marketplace is the documented marketplaceMetadata. The object is always
// there, so that clients may read its members without looking first.
type marketplace struct {
	FloorPrice            number `json:"floorPrice,omitempty"`
	CollectionName        string `json:"collectionName,omitempty"`
	CollectionSlug        string `json:"collectionSlug,omitempty"`
	SafelistRequestStatus string `json:"safelistRequestStatus,omitempty"`
	ImageURL              string `json:"imageUrl,omitempty"`
	Description           string `json:"description,omitempty"`
	ExternalURL           string `json:"externalUrl,omitempty"`
	TwitterUsername       string `json:"twitterUsername,omitempty"`
	DiscordURL            string `json:"discordUrl,omitempty"`
	BannerImageURL        string `json:"bannerImageUrl,omitempty"`
	LastIngestedAt        string `json:"lastIngestedAt,omitempty"`
}

// blank reports whether a provider's answer comes down to "never heard of it".
func (c *contract) blank() bool {
	return c.Name == "" && c.Symbol == "" && c.ContractDeployer == ""
}

// record is what there is to remember of the contract, nil for none, from now on.
func (c *contract) record(chain string) Record {
	r := Record{ReadAt: time.Now()}
	if c != nil {
		described := *c
		described.cut()
		described.Chain = chain
		r.Body = described.json()
	}
	return r
}

// maxText bounds each string of a description, in bytes. A contract says of
// itself what it likes, megabytes too, and shares its page with others.
const maxText = 4 << 10

// cut shortens the strings that are longer.
func (c *contract) cut() {
	m := &c.Marketplace
	for _, s := range []*string{
		&c.Address, &c.Name, &c.Symbol, &c.TokenType, &c.ContractDeployer,
		&m.CollectionName, &m.CollectionSlug, &m.SafelistRequestStatus, &m.ImageURL, &m.Description, &m.ExternalURL,
		&m.TwitterUsername, &m.DiscordURL, &m.BannerImageURL, &m.LastIngestedAt,
	} {
		*s = beginning(*s)
	}
}

// beginning is as much of a text as maxText allows, without half a character.
func beginning(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func (c *contract) json() []byte {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // image URLs keep their ampersands
	if err := enc.Encode(c); err != nil {
		return nil // cannot be: strings, and numbers that were read from JSON
	}
	return bytes.TrimSpace(body.Bytes())
}

// An amount is an integer in a JSON string; providers may send a number. Empty
// is absent, and so is one longer than maxText: cut, it would be another.
type amount string

// UnmarshalJSON takes a string or a number; all else is absent.
func (a *amount) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		if *a = amount(s); len(s) > maxText {
			*a = ""
		}
		return nil
	}
	return (*number)(a).UnmarshalJSON(text)
}

// A number is a JSON number, digit for digit as the provider wrote it. Empty is
// absent, as null is, and as one is that no client could read: floats end at
// 1.8e308.
type number string

// UnmarshalJSON takes a number; all else is absent.
func (n *number) UnmarshalJSON(text []byte) error {
	*n = ""
	if _, err := strconv.ParseFloat(string(text), 64); err == nil && len(text) <= maxText && text[0] != '"' {
		*n = number(text)
	}
	return nil
}

// MarshalJSON writes the number as it was read.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }
