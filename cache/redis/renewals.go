package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache"
)

const (
	renewalMark = '='     // begins a message that says what was settled, as settleScript has it
	maxTold     = 2 << 10 // bytes of a stored body in a message: longer ones are read by the replicas that need them
)

// renewed hands on what was settled. Its seal is checked when it is read.
func (s *Store) renewed(namespace, about string, to cache.Subscriber) {
	key, m, b, err := cutRenewal(about)
	var h head
	if err == nil {
		h, _, err = decodeHead(m)
	}
	if err != nil {
		s.countUnreadable(err) // as with what cannot be purged
		return
	}
	to.Renewed(key, cache.Renewal{Height: h.height, ETag: h.etag, Whole: b != "", Size: len(about), Read: func(have *cache.Entry) *cache.Entry {
		at := entryKey(namespace, key)
		e, err := s.codec.decode(at, m, b, have)
		if err != nil {
			s.unreadable(at, err)
		}
		return e
	}})
}

// renewalHead begins the message that says what was settled of a key.
func renewalHead(key string, meta []byte) string {
	return string(renewalMark) + strconv.Itoa(len(key)) + " " + strconv.Itoa(len(meta)) + " "
}

// cutRenewal takes a message apart, without its mark.
func cutRenewal(about string) (key, m, b string, err error) {
	first, rest, _ := strings.Cut(about, " ")
	second, rest, _ := strings.Cut(rest, " ")
	ofKey, err1 := strconv.ParseUint(first, 10, 31)
	ofMeta, err2 := strconv.ParseUint(second, 10, 31)
	if err1 != nil || err2 != nil || ofKey+ofMeta > uint64(len(rest)) {
		return "", "", "", fmt.Errorf("%w: not a renewal", errCorrupt)
	}
	return rest[:ofKey], rest[ofKey : ofKey+ofMeta], rest[ofKey+ofMeta:], nil
}
