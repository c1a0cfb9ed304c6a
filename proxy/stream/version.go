package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A version is what a client that polls has of an answer. Its text is the id that
// URLs name, alike in all replicas that have read the answer at that block, whatever its
// coding: <height>.<tag>, or <height>.<tag>.<vain>. The tag has the digest of the answer
// and a checksum over all of the id and the chain.
type version struct {
	height int64 // the newest block at which the answer is known to hold
	digest digest
	vain   int64 // polls that have ended since without a newer block: each goes on at another URL
}

// noVersion is the id of a client that has no answer yet.
const noVersion = "0"

// checksumBytes make a tag whole in base64.
const checksumBytes = 3

// text is the id of a version of a chain.
func (v version) text(chainID string) string {
	height, vain := strconv.FormatInt(v.height, 10), ""
	if v.vain > 0 {
		vain = "." + strconv.FormatInt(v.vain, 10)
	}
	tag := v.digest.appendText(nil)
	sum := sha256.Sum256([]byte(chainID + "\n" + height + "." + string(tag) + vain))
	return height + "." + string(base64.RawURLEncoding.AppendEncode(tag, sum[:checksumBytes])) + vain
}

// parseVersion reads an id of a chain. The error is the client's.
func parseVersion(id, chainID string) (v version, err error) {
	if id == noVersion {
		return v, nil
	}
	parts := strings.Split(id, ".")
	ok := len(parts) == 2 || len(parts) == 3
	if ok {
		v.height, err = strconv.ParseInt(parts[0], 10, 64)
		v.digest, ok = parseDigest(parts[1][:min(digestText, len(parts[1]))])
	}
	if ok && err == nil && len(parts) == 3 {
		v.vain, err = strconv.ParseInt(parts[2], 10, 64)
	}
	if !ok || err != nil || v.height < 0 || v.vain < 0 || v.text(chainID) != id {
		return v, web.BadInput("%s is %q; expected %s, or the id of an answer of this chain, as its Link names it", SinceParameter, web.Short(id), noVersion)
	}
	return v, nil
}

// next is what a client has that had v and is given what is now, where tip is the newest
// block, and tells whether it had that already.
func (v version) next(now version, tip int64) (next version, unchanged bool) {
	switch {
	case v == version{}:
		return now, false
	case now.height < v.height && v.height <= tip: // old, in place of what cannot be read
		now = v
	case now.digest != v.digest:
		return now, false
	}
	if now.height == v.height {
		now.vain = v.vain + 1
	}
	return now, true
}
