package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// An APIKey is one line of collections.keys: NAME:HEX or NAME:HEX:RATE. The key
// itself stands nowhere.
type APIKey struct {
	Name   string
	SHA256 [32]byte
	Rate   Rate // zero: collections.rate
}

// ParseAPIKey reads a line. The error does not repeat it.
func ParseAPIKey(line string) (APIKey, error) {
	name, rest, _ := strings.Cut(line, ":")
	digest, rate, rated := strings.Cut(rest, ":")
	raw, err := hex.DecodeString(digest)
	if !isName(name) || err != nil || len(raw) != len(APIKey{}.SHA256) {
		return APIKey{}, errors.New("not NAME:HEX or NAME:HEX:RATE with a name of letters, digits, - _ and . and the 64 hex digits of a SHA-256 digest")
	}
	key := APIKey{Name: name, SHA256: [32]byte(raw)}
	if rated {
		key.Rate, err = ParseRate(rate)
	}
	return key, err
}

// String writes the line.
func (k APIKey) String() string {
	line := k.Name + ":" + hex.EncodeToString(k.SHA256[:])
	if k.Rate == (Rate{}) {
		return line
	}
	return line + ":" + k.Rate.String()
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-_.", c) >= 0) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

// Rate is a number of requests in a time, of which Burst may come at once. The
// zero Rate is no limit.
type Rate struct {
	Requests int
	Per      time.Duration // a second, a minute or an hour
	Burst    int
}

var pers = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ParseRate reads 300/s, 300/s burst 600, 10/m, 1000/h, or 0 for no limit; a
// bare number is one for a second. What may come at once is the number itself unless a burst is said; what takes more
// than an hour to be allowed again is refused.
func ParseRate(s string) (Rate, error) {
	if s == "0" {
		return Rate{}, nil
	}
	number, burst, isBurst := strings.Cut(s, " burst ")
	number, unit, _ := strings.Cut(number, "/")
	var r Rate
	for _, p := range pers {
		if cmp.Or(unit, "s") == p.name {
			r.Per = p.per
		}
	}
	var err error
	r.Requests, err = strconv.Atoi(number)
	if r.Burst = r.Requests; isBurst && err == nil {
		r.Burst, err = strconv.Atoi(burst)
	}
	if err != nil || r.Per == 0 || !countable(r.Requests) || !countable(r.Burst) {
		return Rate{}, fmt.Errorf("%q is not a rate such as 300/s, 300/s burst 600 or 1000/h, nor 0 for none", s)
	}
	if float64(r.Per)/float64(r.Requests)*float64(r.Burst) > float64(time.Hour) {
		return Rate{}, fmt.Errorf("%q allows a burst that takes more than an hour to be allowed again", s)
	}
	return r, nil
}

func countable(n int) bool { return 0 < n && n <= math.MaxInt32 }

// String writes the rate as ParseRate reads it.
func (r Rate) String() string {
	for _, p := range pers {
		if r.Per != p.per {
			continue
		}
		s := strconv.Itoa(r.Requests) + "/" + p.name
		if r.Burst != r.Requests {
			s += " burst " + strconv.Itoa(r.Burst)
		}
		return s
	}
	return "0"
}

// ParseNetwork reads a network such as 10.0.0.0/8, or an address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor an address", s)
	}
	return network.Masked(), nil
}
