package devnet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT's addresses are made with it

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// validatorSlashes answers with the slashes between two heights. The keys are the height
// and the period.
func validatorSlashes(q *query) error {
	var slashes []*validator // who was slashed was slashed once
	if v := q.validator; v != nil && v.Slash > 0 {
		slashes = append(slashes, v)
	}
	period := func(v *validator) uint64 { return 235 + uint64(v.index) }
	key := func(v *validator) string {
		return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, v.SlashedAt), period(v)))
	}
	within := func(v *validator) bool {
		return v.SlashedAt >= q.request.StartingHeight && v.SlashedAt <= q.request.EndingHeight
	}
	return listPage(q, "slashes", "[]", slashes, key, within, func(v *validator) {
		q.textf(`{"validator_period":"%d","fraction":"%s"}`, period(v), ratio(v.Slash, 1, 10_000))
	})
}

// signingInfo answers with how well a validator signs. It is named by its
// public key, in hex.
func signingInfo(q *query) error {
	pubKey, err := parseHex(q.http.PathValue("key"))
	if err != nil {
		return err
	}
	if len(pubKey) != 33 {
		return fmt.Errorf("invalid public key length: got %d, expected 33", len(pubKey))
	}
	name := cosmos.Bech32(consensusPrefix, consensusAddress(pubKey))
	at := slices.IndexFunc(q.validators, func(v *validator) bool { return string(v.PubKey) == string(pubKey) && v.Status != unbonded })
	if at < 0 {
		return fmt.Errorf("rpc error: code = NotFound desc = SigningInfo not found for validator %s", name)
	}
	info := q.validators[at].Signing
	if info == "" {
		info = fmt.Sprintf(`"index_offset":"%d","jailed_until":%q`, q.height-1, stamp(epoch))
	}
	q.textf(`{"val_signing_info":{"address":%q,%s}}`, name, info)
	return nil
}

// consensusAddress is how CometBFT names the holder of a compressed public key.
func consensusAddress(pubKey []byte) []byte {
	inner := sha256.Sum256(pubKey)
	outer := ripemd160.New()
	outer.Write(inner[:])
	return outer.Sum(nil)
}
