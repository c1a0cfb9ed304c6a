package session

import (
	"strconv"
	"strings"
)

// Headers of sessions.
const (
	Header      = "X-Session"       // a Token
	ResetHeader = "X-Session-Reset" // the block of the request's token was rolled back
)

// A Token names the block that its client has seen. Its hash, of the block before, shows a rollback: the header of a block
// names the hash of the previous one only.
type Token struct {
	Height int64  // 0 means no token
	Hash   string // prefix of the hash of the previous block, in hex; "" if unknown
}

// Number of hex digits of a hash: in a new token, and the minimum and maximum that are accepted.
const (
	hashDigits      = 12
	leastHashDigits = 8
	mostHashDigits  = 64
)

// A History knows the hashes of blocks; *node.Pool implements it.
type History interface {
	// HashOf returns the hash of a block in hex, "" if it is unknown.
	HashOf(height int64) string
	// Replaced reports whether a block with this hash prefix is known to have been rolled back.
	Replaced(height int64, prefix string) bool
}

// TokenAt returns the token of a client that has seen a block.
func TokenAt(height int64, h History) Token {
	hash := h.HashOf(height - 1)
	return Token{height, hash[:min(hashDigits, len(hash))]}
}

// Replaced reports whether the token's block is known to have been rolled back.
func (t Token) Replaced(h History) bool { return t.Hash != "" && h.Replaced(t.Height-1, t.Hash) }

// ParseToken reads a token. It accepts what AppendTo writes, and hashes of 8 to 64 hex digits.
func ParseToken(text string) (t Token, ok bool) {
	number, hash, hashed := strings.Cut(text, ".")
	height, err := strconv.ParseUint(number, 10, 63)
	if err != nil || height == 0 || hashed && !isHash(hash) {
		return Token{}, false
	}
	return Token{int64(height), hash}, true
}

func isHash(text string) bool {
	return leastHashDigits <= len(text) && len(text) <= mostHashDigits && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// AppendTo appends the token as it is sent to clients.
func (t Token) AppendTo(b []byte) []byte {
	b = strconv.AppendInt(b, t.Height, 10)
	if t.Hash != "" {
		b = append(append(b, '.'), t.Hash...)
	}
	return b
}

// String returns the token as it is sent to clients.
func (t Token) String() string { return string(t.AppendTo(nil)) }
