package node

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// Behind a balancer, a node may read page keys in another form than the node that was tested. It then answers some keys with an
// empty or a wrong page. Such pages can be detected, because next_key is the key of the first item of the next page.

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

// A page is a part of a list that a request reads.
type page struct {
	pageKey       // raw is "" for a first page, and for a text that is no key
	filtered bool // the list has filters
	reverse  bool // the list is read backward
}

// page returns the page that a request reads at a height.
func (r Request) page(height int64) page {
	query, _ := url.ParseQuery(r.Query)
	p := page{pageKey: pageKey{r.Path, r.PageKey, height}}
	if r.Keys != UnknownKeys {
		p.raw = query.Get("pagination.key")
		if raw, err := base64.StdEncoding.DecodeString(p.raw); r.Keys == Base64Keys && err == nil {
			p.raw = string(raw)
		}
	}
	for name := range query {
		p.filtered = p.filtered || !strings.HasPrefix(name, "pagination.")
	}
	if reverse := query.Get("pagination.reverse"); reverse != "" {
		p.reverse, _ = strconv.ParseBool(reverse) // as nodes do
	}
	return p
}

// checkPage reports whether a page can be the one that was requested, and remembers the key of its next page. A list with filters
// may end with an empty page, and so may a page whose key is from another block.
func (k *nextKeys) checkPage(r Request, height int64, a *Answer) bool {
	if a.Reason != OK {
		return true
	}
	p := r.page(height)
	remembered := !p.filtered && height > 0
	if p.raw != "" && !p.startsAtKey(a.Body, remembered && k.has(p.pageKey)) {
		return false
	}
	if remembered && bytes.Contains(a.Body, []byte(`"next_key"`)) {
		text := gjson.GetBytes(a.Body, "msg.pagination.next_key").Str
		if next, err := base64.StdEncoding.DecodeString(text); err == nil && len(next) > 0 {
			k.add(pageKey{r.Path, string(next), height})
		}
	}
	return true
}

// startsAtKey reports whether the page can start at its key. If a node handed out the key for this block (known), its first item
// has this key. Otherwise the first item does not lie before it. Only the delegations of a validator show the keys of their items.
// In a form that their node does not read, a key selects other items of this list, and no items of other lists.
func (p page) startsAtKey(body []byte, known bool) bool {
	msg := gjson.GetBytes(body, "msg")
	empty := true
	msg.ForEach(func(_, list gjson.Result) bool {
		empty = empty && (!list.IsArray() || list.Get("#").Int() == 0)
		return empty
	})
	first, err := hex.DecodeString(strings.TrimPrefix(msg.Get("delegation_responses.0.delegation.delegator_address").Str, "0x"))
	switch order := strings.Compare(string(first), p.raw); {
	case empty:
		return !known
	case err != nil || len(first) != len(p.raw): // the key is no delegator
		return true
	case known:
		return order == 0
	case p.reverse:
		return order <= 0
	default:
		return order >= 0
	}
}
