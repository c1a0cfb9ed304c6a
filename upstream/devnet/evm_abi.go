package devnet

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A word is the unit of the execution chain's encoding.
type word [32]byte

// UnmarshalText reads a word in hex.
func (w *word) UnmarshalText(text []byte) error { return readHex(w[:], string(text)) }

// String is a word as JSON-RPC has it.
func (w word) String() string { return hexText(w[:]) }

func numberWord(n uint64) (w word) {
	binary.BigEndian.PutUint64(w[24:], n)
	return w
}

func addressWord(a address) (w word) {
	copy(w[12:], a[:])
	return w
}

// pack encodes the arguments of an event or the results of a call. Those that
// are words stand in their place. Byte strings come behind all others, and their
// offset stands in their place.
func pack(arguments ...any) []byte {
	head, tail := make([]byte, 0, 32*len(arguments)), []byte(nil)
	for _, argument := range arguments {
		switch a := argument.(type) {
		case word:
			head = append(head, a[:]...)
		case []byte:
			length, where := numberWord(uint64(len(a))), numberWord(uint64(32*len(arguments)+len(tail)))
			head = append(head, where[:]...)
			tail = append(append(tail, length[:]...), a...)
			tail = append(tail, make([]byte, -len(a)&31)...) // to a whole word
		}
	}
	return append(head, tail...)
}

// mustAddress and mustWord decode what is part of the program.
func mustAddress(text string) (a address) {
	mustHex(a[:], text)
	return a
}

func mustWord(text string) (w word) {
	mustHex(w[:], text)
	return w
}

// An address names an account or a contract of the execution chain.
type address [20]byte

func addressOf(b []byte) address { return address(b[:20]) }

// String is 0x and lower-case hex.
func (a address) String() string { return hexText(a[:]) }

// checksum is the mixed-case form of EIP-55: a letter is upper-case where the
// digest of the lower-case form has a nibble of 8 or more.
func (a address) checksum() string {
	text := []byte(hex.EncodeToString(a[:]))
	hash := sha3.NewLegacyKeccak256()
	hash.Write(text)
	sum := hash.Sum(nil)
	for i, c := range text {
		if c >= 'a' && sum[i/2]>>(4*(1-i%2))&0xf >= 8 {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

// UnmarshalText reads an address in hex, in any case.
func (a *address) UnmarshalText(text []byte) error { return readHex(a[:], string(text)) }

// readHex fills exactly as many bytes as there are.
func readHex(into []byte, text string) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err == nil && len(raw) != len(into) {
		err = fmt.Errorf("%q has %d bytes, want %d", text, len(raw), len(into))
	}
	copy(into, raw)
	return err
}

// mustHex fills in a part of the program.
func mustHex(into []byte, text string) {
	if err := readHex(into, text); err != nil {
		panic("devnet: " + err.Error())
	}
}

// hexText is raw as JSON-RPC has it.
func hexText(raw []byte) string { return "0x" + hex.EncodeToString(raw) }

// digest is the source of everything that looks random.
func digest(seed uint64, what string, i int) [32]byte { return state.Digest(seed, what, int64(i)) }
