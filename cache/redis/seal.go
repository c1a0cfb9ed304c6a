package redis

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errForeign means that a value was not signed with our key.
var errForeign = fmt.Errorf("%w: not signed with our key", errCorrupt)

// maxAge is the maximum age of a signed announcement, including clock skew. A signed lease may be older by the duration
// of a flight.
const maxAge = time.Minute

// A sealer signs values. It appends to the m of an entry an HMAC of the Redis key and m, which contains the digest of the body.
// So a writer without the key cannot make or change entries or move them to another key. Such a writer can restore an older
// entry of the same key, whose height shows its age. Agreements, tokens of leases and announcements are signed for their Redis
// key or channel.
type sealer []byte

// seal returns m with its signature. Without a key it returns m.
func (s sealer) seal(at string, m []byte) []byte {
	if len(s) == 0 {
		return m
	}
	return append(m, s.sum(at, m)...)
}

// open returns m without its signature, or errForeign.
func (s sealer) open(at, m string) (string, error) {
	if len(s) == 0 {
		return m, nil
	}
	end := len(m) - sha256.Size
	if end < 0 || !hmac.Equal([]byte(m[end:]), s.sum(at, []byte(m[:end]))) {
		return "", errForeign
	}
	return m[:end], nil
}

// named returns a name that depends on the key.
func (s sealer) named(name string) string {
	if len(s) == 0 {
		return name
	}
	return name + "." + hex.EncodeToString(s.sum("", []byte(name))[:4])
}

// sum also hashes the length of at, so that no part of m can pass for it.
func (s sealer) sum(at string, m []byte) []byte {
	h := hmac.New(sha256.New, s)
	h.Write(binary.AppendUvarint(nil, uint64(len(at))))
	h.Write([]byte(at))
	h.Write(m)
	return h.Sum(nil)
}

// newToken returns a token for the holder of an entry's lease. With a seal key it proves that a replica acquired the
// lease, and when.
func (s *Store) newToken(entry string) string {
	text := fmt.Appendf(nil, "%s %d", rand.Text(), s.o.Now().UnixMilli())
	return string(s.codec.seal(leaseKey(entry), text))
}

// verifyHolder returns an error if the holder is not a replica with our key, or acquired the lease longer ago than
// a flight takes: another process may have copied the token.
func (s *Store) verifyHolder(at, holder string) error {
	if len(s.o.SealKey) == 0 {
		return nil
	}
	text, err := s.codec.open(at, holder)
	if err != nil {
		return err
	}
	_, began, _ := strings.Cut(text, " ")
	if ms, err := strconv.ParseInt(began, 10, 64); err != nil || s.o.Now().Sub(time.UnixMilli(ms)).Abs() > maxAge+s.o.FlightTimeout {
		return fmt.Errorf("%w: lease is too old", errCorrupt)
	}
	return nil
}
