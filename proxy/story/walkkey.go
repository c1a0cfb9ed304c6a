package story

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
)

// A walkKey is the next page key of a list in the documented shape: the node's key and the height of the page. The next page is
// read at that height, so that all pages of a list are from one block.
//
// Its text is walkKeyPrefix and unpadded URL-safe base64 of: height and epoch as
// unsigned varints, the node's raw key, and a checksum over these, the chain and
// the path.
type walkKey struct {
	blocks.Snapshot
	raw string // the node's key, as bytes
}

const (
	walkKeyPrefix   = "tip-"
	walkChecksumLen = 8
)

var errWalkKey = errors.New("not a page key of this list")

// text writes the key for the list at a canonical path of a chain.
func (k walkKey) text(chainID, path string) string {
	b := binary.AppendUvarint(nil, uint64(k.Height))
	b = binary.AppendUvarint(b, k.Epoch)
	b = append(b, k.raw...)
	b = append(b, walkChecksum(chainID, path, b)...)
	return walkKeyPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// parseWalkKey reads a key that text wrote for the same chain and path.
// Anything else is errWalkKey.
func parseWalkKey(text, chainID, path string) (k walkKey, err error) {
	text, ok := strings.CutPrefix(text, walkKeyPrefix)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < walkChecksumLen || !ok || strings.ContainsAny(text, "\r\n") { // which base64 skips
		return k, errWalkKey
	}
	b, sum := b[:len(b)-walkChecksumLen], b[len(b)-walkChecksumLen:]
	if !bytes.Equal(sum, walkChecksum(chainID, path, b)) {
		return k, errWalkKey
	}
	height, n := binary.Uvarint(b)
	if n <= 0 || height == 0 || height > 1<<62 {
		return k, errWalkKey
	}
	epoch, m := binary.Uvarint(b[n:])
	if m <= 0 || len(b) == n+m {
		return k, errWalkKey
	}
	return walkKey{blocks.Snapshot{Height: int64(height), Epoch: epoch}, string(b[n+m:])}, nil
}

// walkChecksum detects keys that were altered, or are for another list or chain. It needs no secret: a client that forges a key
// gets a page that it could have requested otherwise.
func walkChecksum(chainID, path string, payload []byte) []byte {
	h := sha256.New()
	for _, part := range []string{chainID, path} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(payload)
	return h.Sum(nil)[:walkChecksumLen]
}
