package config

import (
	"cmp"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// parse parses the texts of a setting into a field of Config: several for a list, one otherwise.
func parse(field reflect.Value, texts []string) error {
	switch field.Kind() {
	case reflect.Slice:
		if isListOfSections(field) {
			return errOnlyInFile
		}
		field.Set(reflect.ValueOf(texts))
		return nil
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return parse(field.Elem(), texts)
	case reflect.Map:
		return errOnlyInFile
	default:
		return parseOne(field, texts[0])
	}
}

var errOnlyInFile = errors.New("only a file can hold this section")

func isListOfSections(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
}

func parseOne(field reflect.Value, text string) error {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if field.Type() == reflect.TypeFor[time.Duration]() {
		d, err := parseDuration(text)
		field.SetInt(int64(d))
		return err
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
		return nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		field.SetBool(b)
		return wrong(err, text, "neither true nor false")
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		field.SetFloat(f)
		return wrong(err, text, "not a number")
	default:
		n, err := strconv.ParseInt(text, 0, field.Type().Bits())
		field.SetInt(n)
		return wrong(err, text, "not a whole number")
	}
}

func wrong(err error, text, why string) error {
	if err != nil {
		return fmt.Errorf("%q is %s", text, why)
	}
	return nil
}

// parseDuration requires a unit: 2 could mean seconds or milliseconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, bare := strconv.ParseFloat(text, 64); bare == nil {
		return 0, fmt.Errorf("%q has no unit: write a time such as 100ms, 5s or 1h", text)
	}
	return 0, fmt.Errorf("%q is not a time such as 100ms, 5s or 1h", text)
}

// Bytes is an amount of memory, such as 1024, 64KiB, 256MiB or 2GiB.
type Bytes int64

// Auto is an amount that depends on the machine. It is written as auto.
const Auto Bytes = -1

var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Bytes) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*b = Auto
		return nil
	}
	s, size := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/size {
		return fmt.Errorf("%q is not a size such as 64KiB, 256MiB or 2GiB", text)
	}
	*b = Bytes(n * size)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns b with the largest unit that divides it.
func (b Bytes) String() string {
	if b == Auto {
		return "auto"
	}
	for _, u := range units {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return "0B"
}

// parseShare parses log.access: true, false, or a fraction.
func parseShare(text string) (float64, error) {
	switch all, err := strconv.ParseBool(text); {
	case err == nil && all:
		return 1, nil
	case err == nil:
		return 0, nil
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share <= 1) { // also false for NaN
		return 0, fmt.Errorf("%q is not true, false, or a share such as 0.01", text)
	}
	return share, nil
}

var keyLine = regexp.MustCompile(`^([\w.-]{1,64}):([0-9A-Fa-f]{64})(?::(.+))?$`)

// ParseAPIKey parses an item of collections.keys: NAME:HEX or NAME:HEX:RATE, where HEX is the SHA-256
// digest of the key. The error does not repeat the line.
func ParseAPIKey(line string) (key limits.Key, err error) {
	parts := keyLine.FindStringSubmatch(line)
	if parts == nil {
		return key, errors.New("expected NAME:HEX or NAME:HEX:RATE, with letters, digits, - _ and . in NAME, and HEX the 64 hex digits of a SHA-256 digest")
	}
	key.Name = parts[1]
	_, _ = hex.Decode(key.SHA256[:], []byte(parts[2])) // cannot fail
	if parts[3] != "" {
		key.Rate, err = ParseRate(parts[3])
	}
	if parts[3] == "0" {
		err = errors.New("a rate of 0 would mean http.rate and collections.rate: leave it out, or write a large rate")
	}
	return key, err
}

var (
	rateForm = regexp.MustCompile(`^(\d+)/([smh])(?: burst (\d+))?$`)
	rateUnit = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

// ParseRate parses 300/s, 300/s burst 600, 10/m, 1000/h, or 0 for no limit. The default burst is the
// number of requests. A burst that takes more than an hour to refill is refused.
func ParseRate(s string) (r limits.Rate, err error) {
	if s == "0" {
		return r, nil
	}
	if _, bare := strconv.ParseUint(s, 10, 64); bare == nil {
		return r, fmt.Errorf("%q has no unit: write %s/s for a rate per second, or a rate such as 300/s burst 600 or 1000/h", s, s)
	}
	parts := rateForm.FindStringSubmatch(s)
	if parts == nil || !count(&r.Requests, parts[1]) || !count(&r.Burst, cmp.Or(parts[3], parts[1])) {
		return limits.Rate{}, fmt.Errorf("%q is not a rate: expected 300/s, 300/s burst 600 or 1000/h", s)
	}
	r.Per = rateUnit[parts[2]]
	if float64(r.Per)/float64(r.Requests)*float64(r.Burst) > float64(time.Hour) {
		return limits.Rate{}, fmt.Errorf("%q has a burst that takes more than an hour to refill", s)
	}
	return r, nil
}

// rulePattern is a path, or the name of a method with stars.
var rulePattern = regexp.MustCompile(`^(/[!-~]*|[\w.*]+(/[\w*]+)?)$`)

// ParseRule parses an access rule: deny PATTERN..., allow PATTERN..., or limit RATE, cost N or both before patterns.
func ParseRule(line string) (r limits.Rule, err error) {
	r.Text = line
	words := strings.Fields(line)
	next := func(n int) (taken []string) {
		taken, words = words[:min(n, len(words))], words[min(n, len(words)):]
		return taken
	}
	switch action := strings.Join(next(1), ""); action {
	case "allow":
	case "deny":
		r.Deny = true
	case "limit":
		rate := strings.Join(next(1), "")
		if len(words) > 0 && words[0] == "burst" {
			rate += " " + strings.Join(next(2), " ")
		}
		if rate == "0" {
			return r, fmt.Errorf("%q limits nothing: use deny to refuse all requests, or allow", line)
		}
		if r.Rate, err = ParseRate(rate); err != nil {
			return r, err
		}
	case "cost":
		words = append([]string{"cost"}, words...)
	default:
		return r, fmt.Errorf("%q does not begin with deny, allow, limit or cost", line)
	}
	if len(words) > 1 && words[0] == "cost" && !r.Deny {
		if !count(&r.Cost, words[1]) {
			return r, fmt.Errorf("%q is not a cost: expected a number of requests", words[1])
		}
		next(2)
	}
	if r.Patterns = words; len(words) == 0 {
		return r, fmt.Errorf("%q names no path or method", line)
	}
	for _, pattern := range words {
		if !rulePattern.MatchString(pattern) {
			return r, fmt.Errorf("%q is neither a path such as /staking/*, nor a method such as tx_search or cosmos.bank.v1beta1.Query/*", pattern)
		}
		if stars := withStars(pattern); stars != pattern {
			return r, fmt.Errorf("%q has a variable, but rules have * for any characters: write %s", pattern, stars)
		}
	}
	return r, nil
}

var pathVariable = regexp.MustCompile(`\{[^/]*\}`)

// withStars replaces the variables in the pattern of a route by *, as access rules have them.
func withStars(pattern string) string { return pathVariable.ReplaceAllString(pattern, "*") }

// count parses a number from 1 to 2,147,483,647. It returns false for other texts.
func count(into *int, digits string) bool {
	n, err := strconv.ParseInt(digits, 10, 32)
	*into = int(n)
	return err == nil && n > 0
}

// parseNode parses an item of chain.nodes: URL, then priority N and header NAME=VALUE in any number. The error does not
// repeat the values of headers.
func parseNode(line string) (e node.Endpoint, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return e, errors.New("is empty")
	}
	e.REST = words[0]
	for words = words[1:]; len(words) > 1; words = words[2:] {
		switch name, value, _ := strings.Cut(words[1], "="); {
		case words[0] == "priority" && count(&e.Priority, words[1]):
		case words[0] == "header" && httpguts.ValidHeaderFieldName(name) && value != "" && httpguts.ValidHeaderFieldValue(value):
			if e.Headers == nil {
				e.Headers = http.Header{}
			}
			e.Headers.Add(name, value)
		default:
			return e, errNodeForm
		}
	}
	if len(words) > 0 {
		return e, errNodeForm
	}
	return e, nil
}

var errNodeForm = errors.New("expected URL, optionally followed by priority N (at least 1) and header NAME=VALUE")

// ParseNetwork parses a network such as 10.0.0.0/8, or an address. IPv4-mapped IPv6 means IPv4, as in the addresses of clients.
func ParseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(s)
	if err == nil && network.Addr().Is4In6() {
		network, err = network.Addr().Unmap().Prefix(network.Bits() - 96)
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor an address", s)
	}
	return network.Masked(), nil
}

// Host returns the host of a URL, or of an item of chain.nodes. The other parts may hold secrets. It returns ? if the host may be a
// part of a password.
func Host(raw string) string {
	if words := strings.Fields(raw); len(words) > 1 {
		if _, err := parseNode(raw); err != nil {
			return "?"
		}
		raw = words[0]
	}
	_, at, ok := strings.Cut(raw, "://")
	if u, err := url.Parse("any://" + at); ok && err == nil && upstream.CheckCredentials(raw) == nil {
		return cmp.Or(u.Host, "local")
	}
	return "?"
}
