package devnet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/sha3"
)

// An address names an account or a validator of the chain.
type address [20]byte

func addressOf(b []byte) address { return address(b[:20]) }

// String is the form of answers: 0x and lower-case hex.
func (a address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// appendTo appends String without allocating it.
func (a address) appendTo(b []byte) []byte { return hex.AppendEncode(append(b, "0x"...), a[:]) }

// key is how an address stands in most page keys: its length, then its bytes.
func (a address) key() string { return string(byte(len(a))) + string(a[:]) }

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
func (a *address) UnmarshalText(text []byte) error { return readHex(a[:], text) }

// readHex fills exactly as many bytes as there are.
func readHex(into, text []byte) error {
	raw, err := parseHex(string(text))
	if err == nil && len(raw) != len(into) {
		err = fmt.Errorf("%q has %d bytes, want %d", text, len(raw), len(into))
	}
	copy(into, raw)
	return err
}

// The prefixes of bech32 addresses, which the node uses in its error texts.
const (
	accountPrefix   = "story"
	validatorPrefix = "storyvaloper"
	consensusPrefix = "storyvalcons"
)

// parseHex is the node's reading of an address in a path: any number of bytes
// up to 255, in any case.
func parseHex(s string) ([]byte, error) {
	if !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X") {
		return nil, errors.New("hex string without 0x prefix")
	}
	raw, err := hex.DecodeString(s[2:])
	switch {
	case errors.As(err, new(hex.InvalidByteError)):
		return nil, errors.New("invalid hex string")
	case err != nil:
		return nil, errors.New("hex string of odd length")
	case len(raw) > 255:
		return nil, fmt.Errorf("address max length is 255, got %d: unknown address", len(raw))
	}
	return raw, nil
}
