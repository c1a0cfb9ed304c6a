package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
)

// batchRoute is the name of batches in metrics, logs and policies.
const batchRoute = "batch"

func (v *router) serveBatch(r *web.Request) error {
	b, err := v.readBatch(r)
	if err != nil {
		return err
	}
	if err := v.stack.AdmitMore(r, len(b.members)-1); err != nil {
		return err
	}
	for _, m := range b.members {
		if err := v.stack.AdmitOperation(r, m.operation); err != nil {
			return err
		}
	}
	return v.reader.Serve(r, &b.read)
}

// planBatch returns the plan of a batch.
func (v *router) planBatch(r *web.Request) (p web.Plan, err error) {
	b, err := v.readBatch(r)
	if err != nil {
		return p, err
	}
	var paths []string
	admission, limited, asks := v.stack.Admission, 0, false
	for _, m := range b.members {
		if rule := admission.Limits.Load().Rule(m.operation); rule != nil && rule.Rate != (limits.Rate{}) {
			limited++
			asks = asks || admission.AsksRedis(rule.Rate)
		}
		paths = append(paths, m.path)
	}
	p = web.Plan{Route: batchRoute, Asks: "the cache for " + strings.Join(paths, ", ") + ", all at one block", Origin: "the cache"}
	if limited > 1 || asks {
		p.NoLane = "access rules limit its paths"
	}
	p, _, err = v.reader.Forecast(r, &b.read, p)
	return p, err
}

// A batch is a request for several responses at one block.
type batch struct {
	read    blocks.Read
	members []batchMember
	render  web.Renderer
	oldest  blocks.Snapshot // block of the oldest page of a walk; zero for none
}

// A batchMember is one path of a batch.
type batchMember struct {
	path      string         // as requested
	operation string         // for access rules
	refusal   *cache.Content // response if its parameters are invalid; it has no query then
}

// readBatch parses a batch request.
func (v *router) readBatch(r *web.Request) (*batch, error) {
	paths, err := pathsOf(r, blocks.MaxBatchPaths)
	if err != nil {
		return nil, err
	}
	heights, err := v.ReadHeights(r)
	if err != nil {
		return nil, err
	}
	b := &batch{render: v.render}
	b.read = blocks.Read{Kind: v.batch, Heights: heights, Batch: &blocks.Batch{Compose: b.compose}}
	key := sha256.New()
	fmt.Fprintf(key, "%q", v.shape)
	for _, path := range paths {
		q, err := v.readMember(b, path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(key, "%q", path)
		if q == nil {
			continue
		}
		fmt.Fprintf(key, "%q", q.Key)
		if err := b.add(q); err != nil {
			return nil, err
		}
	}
	b.read.Key = cache.Composed + base64.RawURLEncoding.EncodeToString(key.Sum(nil))
	return b, nil
}

// maxTypos is the length of the named typos at which a batch names no more, because proxies limit the size of headers.
const maxTypos = 500

// add adds a query to the batch. Pages of walks are read at the block of the newest page, if the blocks of all are close
// enough.
func (b *batch) add(q *blocks.Read) error {
	b.read.Batch.Parts = append(b.read.Batch.Parts, q)
	b.read.Ask.Cost = max(b.read.Ask.Cost, q.Ask.Cost)
	if len(b.read.Typos) < maxTypos {
		b.read.Typos = strings.Trim(b.read.Typos+", "+q.Typos, ", ")
	}
	is := q.Walk
	if is.Height == 0 || b.read.Pinned > 0 {
		return nil
	}
	if b.oldest.Height == 0 {
		b.oldest, b.read.Walk = is, is
	}
	for _, was := range []blocks.Snapshot{b.oldest, b.read.Walk} {
		if was.Epoch != is.Epoch || max(was.Height-is.Height, is.Height-was.Height) >= story.StampBlocks {
			return failure.BadInput("the page keys are from blocks %d and %d; name one block for all with %s", was.Height, is.Height, respond.HeightHeader)
		}
	}
	if is.Height < b.oldest.Height {
		b.oldest = is
	}
	if is.Height > b.read.Walk.Height {
		b.read.Walk = is
	}
	return nil
}

// readMember parses one path. It returns nil if the parameters of the path are invalid: the refusal is the member's
// response. An error refuses the whole batch.
func (v *router) readMember(b *batch, path string) (*blocks.Read, error) {
	r, err := v.nested(web.NewRequest(&http.Request{Header: http.Header{}}), path)
	if err != nil {
		return nil, err
	}
	if named, err := (web.HeightRules{EVM: true}).Read(r); err != nil || named != (web.Heights{}) {
		return nil, failure.BadInput("path %q names a block, but a batch names one block for all paths", web.Short(path))
	}
	_, fixed := v.fixed[r.URL.Path]
	ep := v.Endpoint(r)
	switch {
	case fixed || v.isListing(r.URL.Path) || v.route(r).Name == fallback.Name || ep != nil && !ep.Row.Class.ReadsState():
		return nil, failure.BadInput("path %q is not about the state of the chain at a block; request it alone", web.Short(path))
	case ep == nil:
		return nil, failure.BadInput("path %q: %s", web.Short(path), failure.Of(v.notNamed(r)).Public)
	}
	q, err := ep.Parse(r)
	m := batchMember{path: path, operation: v.operationOf(r.URL.Path)}
	if err != nil {
		status, typ, body := v.render(r, http.Header{}, failure.Of(err))
		m.refusal, q = cache.NewContent(status, typ, "", body, 0), nil
	}
	b.members = append(b.members, m)
	return q, nil
}

// compose returns the content of the batch. Its validator is weak, because the height changes at each block although
// no member does.
func (b *batch) compose(height int64, parts []*cache.Entry) *cache.Content {
	contents, size := make([]*cache.Content, len(b.members)), 0
	for i, m := range b.members {
		if contents[i] = m.refusal; m.refusal == nil {
			contents[i], parts = parts[0].Content, parts[1:]
		}
		if contents[i].Status == http.StatusNotImplemented { // from a node that does not have the path
			return b.refusal("no such path: " + web.Short(m.path))
		}
		size += len(contents[i].Body)
		if contents[i] == blocks.TooLarge {
			return b.refusal(fmt.Sprintf("the responses are larger than %d bytes together; request fewer paths or smaller pages", blocks.MaxBatchBytes))
		}
	}
	validator := sha256.New()
	text := append(make([]byte, 0, size+128*len(contents)+64), `{"height":`...)
	text = append(strconv.AppendInt(text, height, 10), `,"answers":[`...)
	for i, c := range contents {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendMember(text, b.members[i].path, c)
		fmt.Fprintf(validator, "%q%q", b.members[i].path, c.ETag)
	}
	content := cache.NewContent(http.StatusOK, respond.JSON, "", append(text, "]}\n"...), 0)
	content.ETag = `W/"` + base64.RawURLEncoding.EncodeToString(validator.Sum(nil)[:16]) + `"`
	return content
}

// refusal returns the response to a batch that cannot be served.
func (b *batch) refusal(why string) *cache.Content {
	status, typ, body := b.render(nil, http.Header{}, failure.Of(failure.BadInput("%s", why)))
	return cache.NewContent(status, typ, "", body, 0)
}

// linkFrom returns the Link of a response, which may be relative to its path, with the path.
func linkFrom(path, link string) string {
	if query, ok := strings.CutPrefix(link, "<?"); ok {
		path, _, _ = strings.Cut(path, "?")
		return "<" + path + "?" + query
	}
	return link
}

// appendMember appends one response. A body that is not JSON becomes a string.
func appendMember(text []byte, path string, c *cache.Content) []byte {
	quote := func(s string) {
		quoted, _ := json.Marshal(s) // a string always encodes
		text = append(text, quoted...)
	}
	text = append(text, `{"path":`...)
	quote(path)
	text = append(text, `,"status":`...)
	text = strconv.AppendInt(text, int64(c.Status), 10)
	if strings.HasPrefix(c.Type, respond.JSON) && gjson.ValidBytes(c.Body) {
		text = append(append(text, `,"body":`...), bytes.TrimSpace(c.Body)...)
	} else {
		text = append(text, `,"text":`...)
		quote(string(c.Body))
	}
	if c.Link != "" {
		text = append(text, `,"link":`...)
		quote(linkFrom(path, c.Link))
	}
	return append(text, '}')
}
