package events

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT names validators by it
)

// A validatorUpdate is an update in block_results. The key is in PubKey before CometBFT 1.0, and in KeyType
// and KeyBytes since.
type validatorUpdate struct {
	PubKey struct {
		Sum struct {
			Type  string            `json:"type"`
			Value map[string][]byte `json:"value"`
		} `json:"Sum"`
	} `json:"pub_key"`
	KeyType  string `json:"pub_key_type"`
	KeyBytes []byte `json:"pub_key_bytes"`
	Power    int64  `json:"power,string"` // absent for a removed validator
}

func (u *validatorUpdate) key() (kind string, key []byte) {
	if u.KeyType != "" {
		return u.KeyType, u.KeyBytes
	}
	for _, key = range u.PubKey.Sum.Value { // the map has one member
	}
	return u.PubKey.Sum.Type, key
}

// The kinds of validator keys in events.
const (
	ed25519   = "tendermint/PubKeyEd25519"
	secp256k1 = "tendermint/PubKeySecp256k1"
	bls12381  = "cometbft/PubKeyBls12_381"
)

// keyKinds holds the kinds by their names in block_results, before CometBFT 1.0 and since.
var keyKinds = map[string]string{
	"tendermint.crypto.PublicKey_Ed25519": ed25519, "ed25519": ed25519,
	"tendermint.crypto.PublicKey_Secp256K1": secp256k1, "secp256k1": secp256k1,
	"tendermint.crypto.PublicKey_Bls12381": bls12381, "bls12_381": bls12381,
}

// addressOf returns the address of the validator with a key.
func addressOf(kind string, key []byte) []byte {
	sum := sha256.Sum256(key)
	if kind != secp256k1 {
		return sum[:20]
	}
	hash := ripemd160.New()
	hash.Write(sum[:])
	return hash.Sum(nil)
}

// validatorSetUpdates returns the value of the event ValidatorSetUpdates for the updates in block_results.
func validatorSetUpdates(updates json.RawMessage) ([]byte, error) {
	var all []validatorUpdate
	if err := json.Unmarshal(updates, &all); err != nil {
		return nil, err
	}
	value := []byte(`{"validator_updates":[`)
	for i, u := range all {
		if i > 0 {
			value = append(value, ',')
		}
		name, key := u.key()
		kind, known := keyKinds[name]
		if !known || len(key) == 0 {
			return nil, fmt.Errorf("unknown type %q of a validator's public key", name)
		}
		text, _ := json.Marshal(key) // bytes always encode
		value = fmt.Appendf(value, `{"address":"%X","pub_key":{"type":"%s","value":%s},"voting_power":"%d","proposer_priority":"0"}`, addressOf(kind, key), kind, text, u.Power)
	}
	return append(value, "]}"...), nil
}
