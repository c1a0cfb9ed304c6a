package node

import (
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"net/url"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// A node that reads page keys in another form than it did when it was tested, as behind a balancer, answers some keys with an
// empty or a wrong page. Such a page shows itself: a node writes as next_key the key of the first item of the next page.

// maxNextKeys is the number of page keys that a half of nextKeys holds.
const maxNextKeys = 4096

// nextKeys remembers the page keys that nodes handed out lately, each with its list and block.
type nextKeys struct {
	seed maphash.Seed

	mu            sync.Mutex
	recent, older map[uint64]bool
}

func newNextKeys() *nextKeys {
	return &nextKeys{seed: maphash.MakeSeed(), recent: map[uint64]bool{}}
}

// A pageKey is the raw key of a page in a list at a height.
type pageKey struct {
	list, raw string
	height    int64
}

func (k *nextKeys) add(p pageKey) {
	hash := maphash.Comparable(k.seed, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.recent) == maxNextKeys {
		k.older, k.recent = k.recent, map[uint64]bool{}
	}
	k.recent[hash] = true
}

func (k *nextKeys) has(p pageKey) bool {
	hash := maphash.Comparable(k.seed, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.recent[hash] || k.older[hash]
}

// page returns the raw key of the page that a request reads, and the query without its pagination. The key is "" for a first page,
// and for a text that is no key.
func (r Request) page() (raw string, filters url.Values) {
	filters, _ = url.ParseQuery(r.Query)
	if raw = r.PageKey; r.Keys != UnknownKeys {
		raw = filters.Get("pagination.key")
		if bytes, err := base64.StdEncoding.DecodeString(raw); r.Keys == Base64Keys && err == nil {
			raw = string(bytes)
		}
	}
	for name := range filters {
		if strings.HasPrefix(name, "pagination.") {
			filters.Del(name)
		}
	}
	return raw, filters
}

// checkPage reports whether a page can be the one that was requested, and remembers the key of its next page. A list with filters
// may end with an empty page, and so may a page whose key is of another block.
func (k *nextKeys) checkPage(r Request, height int64, a *Answer) bool {
	raw, filters := r.page()
	handedOut := len(filters) == 0 && height > 0 && k.has(pageKey{r.Path, raw, height})
	if a.Reason != OK || raw != "" && !startsAt(raw, a.Body, handedOut, strings.Contains(r.Query, "pagination.reverse=true")) {
		return a.Reason != OK
	}
	if next, err := base64.StdEncoding.DecodeString(gjson.GetBytes(a.Body, "msg.pagination.next_key").Str); len(filters) == 0 && height > 0 && err == nil && len(next) > 0 {
		k.add(pageKey{r.Path, string(next), height})
	}
	return true
}

// startsAt reports whether a page can start at a key: its first item has the key if a node handed it out for this block, and
// otherwise does not lie before it. Only the delegations of a validator show the keys of their items: the form that their node
// does not read selects other items, that of other lists selects none.
func startsAt(raw string, body []byte, handedOut, reverse bool) bool {
	msg := gjson.GetBytes(body, "msg")
	empty := true
	msg.ForEach(func(name, list gjson.Result) bool {
		empty = empty && (!list.IsArray() || list.Get("#").Int() == 0)
		return empty
	})
	first, err := hex.DecodeString(strings.TrimPrefix(msg.Get("delegation_responses.0.delegation.delegator_address").Str, "0x"))
	switch order := strings.Compare(string(first), raw); {
	case empty:
		return !handedOut
	case err != nil || len(first) != len(raw): // the key is no delegator
		return true
	case handedOut:
		return order == 0
	case reverse:
		return order <= 0
	default:
		return order >= 0
	}
}
