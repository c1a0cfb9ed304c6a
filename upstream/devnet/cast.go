package devnet

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// castFile lists the accounts that every devnet begins with, so that a request
// made to one devnet makes sense to all: lines of
//
//	val <index> <address> <public key> unlocked=<0 or 1>
//	del <index> <address>
//
//go:embed cast.txt
var castFile string

// A cast is the accounts of castFile by index.
type cast struct {
	validators map[int]member
	delegators map[int]address
}

// A member is a validator of the cast.
type member struct {
	operator address
	pubKey   []byte // 33 bytes, compressed
	locked   bool
}

func readCast() cast {
	c := cast{validators: map[int]member{}, delegators: map[int]address{}}
	for line := range strings.Lines(castFile) {
		f := strings.Fields(line)
		index, _ := strconv.Atoi(f[1])
		if f[0] == "val" {
			c.validators[index] = member{addressOf(mustHex(f[2])), mustHex(f[3]), f[4] == "unlocked=0"}
		} else {
			c.delegators[index] = addressOf(mustHex(f[2]))
		}
	}
	return c
}

// mustHex decodes a part of castFile, which is part of the program.
func mustHex(s string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil {
		panic("devnet: cast.txt: " + err.Error())
	}
	return raw
}

// validator is the i-th validator: of the cast, else generated.
func (c cast) validator(seed uint64, i int) member {
	if m, ok := c.validators[i]; ok {
		return m
	}
	d := digest(seed, "validator", i)
	return member{addressOf(d[12:]), append([]byte{2 + d[0]&1}, d[:]...), i%4 == 0}
}

// delegator is the i-th delegator: of the cast, else generated.
func (c cast) delegator(seed uint64, i int) address {
	if a, ok := c.delegators[i]; ok {
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
	signer     = 0  // alone at genesis, locked, with a full description
	popular    = 5  // has most of the delegators
	deserted   = 6  // many are unbonding from it
	tombstoned = 13 // signed twice
)

// The sample delegators, by their index in the cast.
const (
	everywhere = 0   // on validators 1 and 5 to 64
	periodic   = 1   // 129 period delegations on the popular validator
	handful    = 2   // on validators 5 to 9
	mover      = 4   // redelegated from validator 7 to 9
	crowd      = 100 // the first of the many
)

// jailed tells which validators are jailed from when, and how much of them was
// slashed, in 1/10,000.
var jailed = map[int]struct {
	from  int64
	slash uint64
}{
	3: {singularity, 2}, 4: {singularity, 2}, tombstoned: {judgement, 500}, 20: {singularity, 0}, 21: {singularity, 0},
}

// released are validators that were jailed and slashed at the beginning and are
// bonded again.
var released = map[int]uint64{1: 2, 2: 2}

// isJailed tells whether a validator is jailed at a height.
func isJailed(i int, height int64) bool {
	j, ok := jailed[i]
	return ok && height >= j.from
}

// Moniker texts that are hard to carry.
var monikers = map[int]string{
	signer:   "mv1.devnet",
	popular:  `Blockscape & <Friends> "5" 'q'`,
	deserted: "storyvaloper136jg50k3dkgqr3m38cnjt6tyfu5tv8tlyukekw",
	7:        "ストーリー 七 🚀",
	8:        "back\\slash \u2028 sep",
}

// The states of a validator, as numbers in answers.
const (
	unbonded  = 1
	unbonding = 2
	bonded    = 3
)

// statusOf is the part a validator plays at a height.
func statusOf(i int, height int64) int {
	switch {
	case isJailed(i, height) || i >= 33 && i <= 37:
		return unbonding
	case i <= 32 || i >= 60 && i <= 62:
		return bonded
	default:
		return unbonded
	}
}
