package story

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story/documented"
)

// StampBlocks is the maximum age, in blocks, of the height in a next page key. While the node's bytes stay the same, the
// body, its ETag and its encodings are reused until then. Nodes that prune keep more blocks.
const StampBlocks = 8

// A stamp puts the height of an answer into its next page key (walkkey.go).
type stamp struct {
	origin *origin
	q      *blocks.Read
	before *cache.Entry // previous entry; nil for none
	height int64        // height of the answer
	keeps  bool         // the next page key of the previous entry may be reused
	kept   int64        // the height in that key; 0 for none
}

// stampFor returns the stamp for an answer at a height. before is the previous entry, nil for none.
func (o *origin) stampFor(q *blocks.Read, before *cache.Entry, height int64) stamp {
	s := stamp{origin: o, q: q, before: before, height: height, keeps: true}
	if o.route.page == nil || o.h.asSent || before == nil {
		return s
	}
	if s.kept = s.readHeight(before.Content); s.kept != 0 {
		s.keeps = 0 < s.kept && s.kept <= height && height-s.kept < StampBlocks
	}
	return s
}

// content returns the content for a shaped answer. It reuses the content of the previous entry, which may be from another
// replica, if nothing else has changed.
func (s stamp) content(shaped *documented.Shaped, source uint64) *cache.Content {
	if s.keeps && s.kept > 0 {
		stamped, link := s.write(s.kept, shaped)
		if c := s.before.ContentIfSame(http.StatusOK, respond.JSON, link, stamped, source); c != nil {
			return c
		}
	}
	stamped, link := s.write(s.height, shaped)
	return cache.NewContentAfter(s.before, http.StatusOK, respond.JSON, link, stamped, source)
}

// write puts a height into the next page key in a body, or into the Link that has it.
func (s stamp) write(height int64, shaped *documented.Shaped) (stamped []byte, link string) {
	body, nextKey := shaped.Body, shaped.NextKey
	if s.origin.route.page == nil || height == 0 {
		return body, s.nextLink(nextKey)
	}
	if nextKey != "" {
		return body, s.nextLink(s.text(height, nextKey))
	}
	from, to := shaped.From, shaped.To
	if s.origin.route.Msg == nil {
		found := dialect.NextKey(body, "msg."+dialect.NextKeyPath)
		from, to = found.Index, found.Index+len(found.Raw)
	}
	if to == 0 {
		return body, ""
	}
	key := gjson.ParseBytes(body[from:to]).Str
	text := s.text(height, key)
	if text == key { // it may need escapes
		return body, ""
	}
	return slices.Concat(body[:from], []byte(`"`+text+`"`), body[to:]), ""
}

// text returns the walk key for the node's next key, or the node's key if it does not have the format of the route.
func (s stamp) text(height int64, nextKey string) string {
	raw, ok := s.origin.route.page.decode(nextKey)
	if !ok {
		return nextKey
	}
	k := walkKey{blocks.Snapshot{Height: height, Epoch: s.epoch()}, raw}
	return k.text(s.origin.h.Reader.Nodes.ChainID(), s.q.Ask.Path)
}

// readHeight returns the height in the next page key of a content, 0 for none, and -1 for a key of another epoch.
func (s stamp) readHeight(c *cache.Content) int64 {
	text := dialect.NextKey(c.Body, "msg."+dialect.NextKeyPath).Str
	if _, rest, ok := strings.Cut(c.Link, walkKeyPrefix); ok {
		text, _, _ = strings.Cut(rest, "&")
		text, _, _ = strings.Cut(walkKeyPrefix+text, ">")
	}
	k, err := parseWalkKey(text, s.origin.h.Reader.Nodes.ChainID(), s.q.Ask.Path)
	switch {
	case err != nil:
		return 0
	case k.Epoch != s.epoch():
		return -1
	default:
		return k.Height
	}
}

func (s stamp) epoch() uint64 { return uint64(s.origin.h.Reader.Nodes.Tip().Epoch) }

// nextLink returns the Link to the page after this one, for lists that have no other place to name it. It has no path:
// the list may be served below several base paths.
func (s stamp) nextLink(nextKey string) string {
	if nextKey == "" {
		return ""
	}
	query, _ := url.ParseQuery(s.q.Ask.Query) // canonical
	v := dialect.Values{{Name: dialect.PageKey, Text: nextKey}}
	for _, name := range [...]string{dialect.PageLimit, dialect.PageReverse} {
		if text := query.Get(name); text != "" {
			v = append(v, dialect.Value{Name: name, Text: text})
		}
	}
	return string(append(v.Append([]byte("<?")), `>; rel="next"`...))
}
