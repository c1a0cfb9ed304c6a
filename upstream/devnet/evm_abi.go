package devnet

import (
	"encoding/binary"
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

func boolWord(yes bool) word { return numberWord(map[bool]uint64{true: 1}[yes]) }

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
