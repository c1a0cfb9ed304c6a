package story

import (
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
)

// A pageKeyFormat reports whether a text has the form of the raw bytes of a route's page keys. Nodes return a key in base64,
// but some of them read only the raw bytes: they answer the base64 text with an empty or a wrong page. No key in base64 has
// the form of raw bytes.
type pageKeyFormat func(raw string) bool

// lengthPrefixed matches an address after its length, which is a key in most of the node's stores.
func lengthPrefixed(raw string) bool { return len(raw) == 21 && raw[0] == 20 }

// twoLengthPrefixed matches a pair of validators.
func twoLengthPrefixed(raw string) bool {
	return len(raw) == 42 && lengthPrefixed(raw[:21]) && lengthPrefixed(raw[21:])
}

// bareAddress matches an address in the index of delegations by validator.
func bareAddress(raw string) bool { return len(raw) == 20 }

// decimalDigits matches the id of a period delegation.
func decimalDigits(raw string) bool { return len(raw) <= 20 && allDigits(raw) }

// oneNumber matches a position in a queue.
func oneNumber(raw string) bool { return len(raw) == 8 }

// twoNumbers matches a height and a period.
func twoNumbers(raw string) bool { return len(raw) == 16 }

// decode returns the raw bytes of a page key that is either raw or base64 of either alphabet, with or without padding.
func (format pageKeyFormat) decode(value string) (raw string, ok bool) {
	if format(value) {
		return value, true
	}
	text := pageKeyAlphabet.Replace(strings.TrimRight(value, "="))
	bytes, err := base64.RawStdEncoding.DecodeString(text)
	return string(bytes), err == nil && format(string(bytes))
}

// pageKeyAlphabet converts URL base64 to standard base64, and a space, which is an unescaped plus sign, to a plus sign.
var pageKeyAlphabet = strings.NewReplacer("-", "+", "_", "/", " ", "+")

// read reads a page key. Walk keys stay as they are.
func (format pageKeyFormat) read(value string) (string, bool) {
	if strings.HasPrefix(value, walkKeyPrefix) {
		return value, true
	}
	return format.decode(value)
}

// pageFlag is the kind of a page's flags. false means the same as no value.
var pageFlag = dialect.Kind{Expects: "true or false", Read: func(value string) (string, bool) {
	on, err := strconv.ParseBool(strings.ToLower(value))
	if !on {
		return "", err == nil
	}
	return "true", true
}}

// nodePageSize is the number of items on a page of the node without a limit.
const nodePageSize = 100

// readPage checks the parameters of a page. It removes count_total where it changes nothing: with a key, a node never counts,
// and without a limit, it always does.
func (o *origin) readPage(q *blocks.Read, v dialect.Values) (dialect.Values, error) {
	key := v.Get(dialect.PageKey)
	if strings.HasPrefix(key, walkKeyPrefix) {
		walk, err := parseWalkKey(key, o.h.Reader.Nodes.ChainID(), q.Ask.Path)
		if err != nil || !o.route.page(walk.raw) {
			return nil, failure.BadInput("%s is %q; expected the next_key of the page before, as it came", dialect.PageKey, web.Short(key))
		}
		q.Walk, key = walk.Snapshot, walk.raw
		v = v.With(dialect.PageKey, key)
	}
	offset, limit := v.Number(dialect.PageOffset), v.Number(dialect.PageLimit)
	if key != "" || limit == 0 {
		v = v.With(dialect.PageCountTotal, "")
	}
	_, overflow := bits.Add64(offset, max(limit, nodePageSize), 0)
	switch {
	case limit > MaxPageLimit:
		return nil, failure.BadInput("%s is %d; at most %d is served", dialect.PageLimit, limit, MaxPageLimit)
	case key != "" && offset > 0:
		return nil, failure.BadInput("only one of %s and %s may be set", dialect.PageKey, dialect.PageOffset)
	case overflow > 0:
		return nil, failure.BadInput("%s and %s together are too large", dialect.PageOffset, dialect.PageLimit)
	}
	return v, nil
}
