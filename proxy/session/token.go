// Package session has the tokens by which clients say how far they have seen the chain,
// whatever connections, replicas and caches their requests go through.
package session

import "strconv"

// A Token says that its client has been answered at a block. The hash tells whether the
// chain still has that block: it may have been set back.
type Token struct {
	Height int64  // of the block; 0 for no token
	Hash   string // what the hash of the block before it begins with, in hex; "" where that was not known
}

// Digits of a hash: how many a token that is made has, and how many of one that is read
// may be there.
const (
	digits      = 12
	leastDigits = 8
	mostDigits  = 64
)

// newToken makes the token of a block by the hash of the one before, "" where that is not known.
func newToken(height int64, hash string) Token { return Token{height, hash[:min(digits, len(hash))]} }

// A History knows the hashes of blocks, as *node.Pool does.
type History interface {
	// HashOf is the hash of a block in hex, "" if it is not known.
	HashOf(height int64) string
	// Replaced tells whether a block whose hash begins so is known to be none of the chain.
	Replaced(height int64, prefix string) bool
}

// At is the token of a client that has been answered at a block.
func At(height int64, h History) Token { return newToken(height, h.HashOf(height-1)) }

// Replaced tells whether the chain is known to have been set back behind the token's block.
func (t Token) Replaced(h History) bool { return t.Hash != "" && h.Replaced(t.Height-1, t.Hash) }

// Parse reads a token, which has to be just as it was made; ok is false for anything else.
func Parse(text string) (t Token, ok bool) {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	height, err := strconv.ParseInt(text[:n], 10, 64)
	if err != nil || height <= 0 {
		return Token{}, false
	}
	t.Height = height
	if n == len(text) {
		return t, true
	}
	t.Hash = text[n+1:]
	return t, text[n] == '.' && isHash(t.Hash)
}

func isHash(text string) bool {
	for _, c := range []byte(text) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return leastDigits <= len(text) && len(text) <= mostDigits
}

// AppendTo appends the token as clients have it.
func (t Token) AppendTo(b []byte) []byte {
	b = strconv.AppendInt(b, t.Height, 10)
	if t.Hash != "" {
		b = append(append(b, '.'), t.Hash...)
	}
	return b
}

// String is the token as clients have it.
func (t Token) String() string { return string(t.AppendTo(nil)) }
