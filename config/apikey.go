package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
)

var keyLine = regexp.MustCompile(`^([\w.-]{1,64}):([0-9A-Fa-f]{64})(?::(.+))?$`)

// ParseAPIKey reads a line of collections.keys: NAME:HEX or NAME:HEX:RATE. The key
// itself stands nowhere. Without a rate it has that of collections.rate. The error
// does not repeat the line.
func ParseAPIKey(line string) (key limits.Key, err error) {
	parts := keyLine.FindStringSubmatch(line)
	if parts == nil {
		return key, errors.New("not NAME:HEX or NAME:HEX:RATE with a name of letters, digits, - _ and . and the 64 hex digits of a SHA-256 digest")
	}
	key.Name = parts[1]
	_, _ = hex.Decode(key.SHA256[:], []byte(parts[2])) // cannot fail
	if parts[3] != "" {
		key.Rate, err = ParseRate(parts[3])
	}
	return key, err
}

var (
	rateForm = regexp.MustCompile(`^(\d+)/([smh])(?: burst (\d+))?$`)
	rateUnit = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

// ParseRate reads 300/s, 300/s burst 600, 10/m, 1000/h, or 0 for no limit. As many
// as the number may come at once unless a burst is said; one that takes more than an
// hour to be allowed again is refused.
func ParseRate(s string) (r limits.Rate, err error) {
	if s == "0" {
		return r, nil
	}
	if _, bare := strconv.ParseUint(s, 10, 64); bare == nil {
		return r, fmt.Errorf("%q has no unit: write %s/s for so many a second, or a rate such as 300/s burst 600 or 1000/h", s, s)
	}
	parts := rateForm.FindStringSubmatch(s)
	if parts == nil || !count(&r.Requests, parts[1]) || !count(&r.Burst, cmp.Or(parts[3], parts[1])) {
		return limits.Rate{}, fmt.Errorf("%q is not a rate such as 300/s, 300/s burst 600 or 1000/h, nor 0 for none", s)
	}
	r.Per = rateUnit[parts[2]]
	if float64(r.Per)/float64(r.Requests)*float64(r.Burst) > float64(time.Hour) {
		return limits.Rate{}, fmt.Errorf("%q allows a burst that takes more than an hour to be allowed again", s)
	}
	return r, nil
}

// count reads a number from 1 to 2,147,483,647.
func count(into *int, digits string) bool {
	n, err := strconv.ParseInt(digits, 10, 32)
	*into = int(n)
	return err == nil && n > 0
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
