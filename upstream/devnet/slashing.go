package devnet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT's addresses are made with it

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A slash is one loss of a validator.
type slash struct {
	height, period uint64
	lost           uint64 // in 1/10,000
}

// key is the height and the period, as the node orders slashes.
func (s slash) key() string {
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.height), s.period))
}

// firstSlash is when the validators that were slashed early were.
const firstSlash = 67

// slashes are the losses of a validator up to this height.
func (s state) slashes(v *validator) []slash {
	if v == nil || v.Slash == 0 {
		return nil
	}
	at := uint64(firstSlash)
	if v.index == tombstoned {
		at = judgement
	}
	return []slash{{height: at, period: 235 + uint64(v.index), lost: v.Slash}}
}

// validatorSlashes answers with the slashes between two heights.
func validatorSlashes(q *query) error {
	within := func(s slash) bool { return s.height >= q.request.StartingHeight && s.height <= q.request.EndingHeight }
	return listPage(q, "slashes", "[]", q.slashes(q.validator), slash.key, within, func(s slash) {
		q.textf(`{"validator_period":"%d","fraction":"%s"}`, s.period, ratio(s.lost, 1, 10_000))
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
	q.textf(`{"val_signing_info":{"address":%q,`, name)
	switch v := q.validators[at]; {
	case v.index == tombstoned:
		q.textf(`"start_height":"80","index_offset":"501","jailed_until":%q,"tombstoned":true,"missed_blocks_counter":"501"`, stamp(doomsday))
	case v.Jailed:
		q.textf(`"start_height":"6","jailed_until":%q`, stamp(createdTime))
	default:
		q.textf(`"index_offset":"%d","jailed_until":%q`, q.height-1, stamp(epoch))
	}
	q.text("}}")
	return nil
}

// consensusAddress is how CometBFT names the holder of a compressed public key.
func consensusAddress(pubKey []byte) []byte {
	inner := sha256.Sum256(pubKey)
	outer := ripemd160.New()
	outer.Write(inner[:])
	return outer.Sum(nil)
}
