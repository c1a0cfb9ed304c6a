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

// errUnsealed is what this service has not written.
var errUnsealed = fmt.Errorf("%w: not sealed with our key", errCorrupt)

// apart is how old a sealed announcement may be, and a lease, with the clocks of
// replicas apart.
const apart = time.Minute

// A sealer proves who wrote an entry: it puts an HMAC of the entry's key and
// head at the head's end. The head holds the digest of the body, so no writer
// without the key can make an entry, change one or move one to another key. An
// older entry of the same key can be put back: its height tells. An agreement is sealed
// in the same way under its key, the token of a lease under the lease's, and an
// announcement under its channel.
type sealer []byte

// seal gives m with its seal. Without a key there is none.
func (s sealer) seal(at string, m []byte) []byte {
	if len(s) == 0 {
		return m
	}
	return append(m, s.sum(at, m)...)
}

// open gives m without its seal, or errUnsealed.
func (s sealer) open(at, m string) (string, error) {
	if len(s) == 0 {
		return m, nil
	}
	end := len(m) - sha256.Size
	if end < 0 || !hmac.Equal([]byte(m[end:]), s.sum(at, []byte(m[:end]))) {
		return "", errUnsealed
	}
	return m[:end], nil
}

// named is a name that other seal keys, and none, do not share.
func (s sealer) named(name string) string {
	if len(s) == 0 {
		return name
	}
	return name + "." + hex.EncodeToString(s.sum("", []byte(name))[:4])
}

// sum digests the length of the key, too, so that no part of m can pass for it.
func (s sealer) sum(at string, m []byte) []byte {
	h := hmac.New(sha256.New, s)
	h.Write(binary.AppendUvarint(nil, uint64(len(at))))
	h.Write([]byte(at))
	h.Write(m)
	return h.Sum(nil)
}

// newToken names a holder of the lease of an entry. With a seal key it proves that a
// replica began to hold the lease, and when.
func (s *Store) newToken(entry string) string {
	text := fmt.Appendf(nil, "%s %d", rand.Text(), s.o.Now().UnixMilli())
	return string(s.codec.seal(leaseKey(entry), text))
}

// believe gives an error for a holder that is no replica with our seal key, or began
// to hold the lease longer ago than any flight: another process may have copied it.
func (s *Store) believe(at, holder string) error {
	if len(s.o.SealKey) == 0 {
		return nil
	}
	text, err := s.codec.open(at, holder)
	if err != nil {
		return err
	}
	_, began, _ := strings.Cut(text, " ")
	if ms, err := strconv.ParseInt(began, 10, 64); err != nil || s.o.Now().Sub(time.UnixMilli(ms)).Abs() > apart {
		return fmt.Errorf("%w: a lease of another time", errCorrupt)
	}
	return nil
}
