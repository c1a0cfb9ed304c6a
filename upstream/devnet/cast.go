package devnet

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// castFile has the accounts that every devnet begins with, so that a request
// made to one devnet makes sense to all, and what is special about them.
//
//go:embed cast.json
var castFile []byte

// A cast is the content of castFile.
type cast struct {
	Validators []member
	Delegators map[int]address
	Stakes     []struct { // of the sample delegators
		Delegator, Validator int
		Lots                 []lot
	}
}

// A member is a validator as it is from the judgement on.
type member struct {
	Operator  address
	PubKey    []byte `json:"pub_key"` // 33 bytes, compressed
	Locked    bool   // its tokens are
	Status    int
	Jailed    bool
	Slash     uint64          // lost, in 1/10,000
	SlashedAt uint64          `json:"slashed_at"` // the height
	Signing   string          // its signing info in JSON; "" counts blocks
	Self      uint64          // what it has staked itself
	About     json.RawMessage // its description
}

var readCast = sync.OnceValue(func() (c cast) {
	if err := json.Unmarshal(castFile, &c); err != nil {
		panic("devnet: cast.json: " + err.Error())
	}
	return c
})

// mustHex decodes a part of the program.
func mustHex(s string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil {
		panic("devnet: " + s + ": " + err.Error())
	}
	return raw
}

// validator is the i-th validator: of the cast, else generated.
func (c cast) validator(seed uint64, i int) member {
	if i < len(c.Validators) {
		return c.Validators[i]
	}
	d := digest(seed, "validator", i)
	return member{
		Operator: addressOf(d[12:]), PubKey: append([]byte{2 + d[0]&1}, d[:]...), Locked: i%4 == 0, Status: unbonded, Self: step,
		About: fmt.Appendf(nil, `{"moniker":"validator-%d"}`, i),
	}
}

// delegator is the i-th delegator: of the cast, else generated.
func (c cast) delegator(seed uint64, i int) address {
	if a, ok := c.Delegators[i]; ok {
		return a
	}
	d := digest(seed, "delegator", i)
	return addressOf(d[12:])
}

// digest is the source of everything that looks random.
func digest(seed uint64, what string, i int) [32]byte { return cosmos.Digest(seed, what, int64(i)) }

// noise is a number below n that depends on seed, what and i alone.
func noise(seed uint64, what string, i int, n uint64) uint64 {
	d := digest(seed, what, i)
	return binary.BigEndian.Uint64(d[:]) % n
}

// The roles: indices of validators with something to tell.
const (
	signer  = 0 // alone at genesis, locked, with a full description
	popular = 5 // has most of the delegators
)

// The sample delegators, by their index in the cast.
const (
	everywhere = 0   // on validators 1 and 5 to 64
	crowd      = 100 // the first of the many
)

// The states of a validator, as numbers in answers.
const (
	unbonded  = 1
	unbonding = 2
	bonded    = 3
)
