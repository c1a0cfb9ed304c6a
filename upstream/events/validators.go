package events

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT names validators by it
)

// A validatorUpdate is a validator with another voting power, as block_results has it.
type validatorUpdate struct {
	Key struct {
		Sum struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"Sum"`
	} `json:"pub_key"`
	Power string `json:"power"` // absent: removed
}

// keyKinds are the kinds of a validator's key: the type that events have, and how an
// address is made of the key.
var keyKinds = map[string]struct {
	name    string
	address func(key []byte) []byte
}{
	"tendermint.crypto.PublicKey_Ed25519": {"tendermint/PubKeyEd25519", func(key []byte) []byte {
		sum := sha256.Sum256(key)
		return sum[:20]
	}},
	"tendermint.crypto.PublicKey_Secp256K1": {"tendermint/PubKeySecp256k1", func(key []byte) []byte {
		sum, of := sha256.Sum256(key), ripemd160.New()
		of.Write(sum[:])
		return of.Sum(nil)
	}},
}

// validators is the value of ValidatorSetUpdates.
func (m *builder) validators() []byte {
	value := []byte(`{"validator_updates":[`)
	for i, u := range m.updates {
		if i > 0 {
			value = append(value, ',')
		}
		kind, known := keyKinds[u.Key.Sum.Type]
		var keys map[string][]byte
		if err := json.Unmarshal(u.Key.Sum.Value, &keys); err != nil || !known || len(keys) != 1 {
			m.err = fmt.Errorf("block %d: a validator's key of type %q is not understood", m.Height, u.Key.Sum.Type)
			return nil
		}
		if u.Power == "" {
			u.Power = "0"
		}
		for _, key := range keys {
			text, _ := json.Marshal(key) // bytes always encode
			value = fmt.Appendf(value, `{"address":"%X","pub_key":{"type":"%s","value":%s},"voting_power":"%s","proposer_priority":"0"}`, kind.address(key), kind.name, text, u.Power)
		}
	}
	return append(value, "]}"...)
}
