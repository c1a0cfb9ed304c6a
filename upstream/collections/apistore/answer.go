package apistore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/jsontext"
)

// parsePage decodes the response to a query. It counts the items first, because empty collections need much more memory than
// their text.
func parsePage(body []byte, q collections.Query) (page collections.Page, err error) {
	if !jsontext.Valid(body) {
		return page, errors.New("response is not a page: invalid JSON")
	}
	data := gjson.GetBytes(body, "data")
	total, err := strconv.ParseInt(gjson.GetBytes(body, "pagination.total").Raw, 10, 64)
	if !data.IsArray() || err != nil || total < 0 {
		return page, errors.New("response has no data or no valid pagination.total")
	}
	n := 0
	data.ForEach(func(_, _ gjson.Result) bool { n++; return true })
	if err := checkCount(n, total, q); err != nil {
		return page, err
	}
	page = collections.Page{Items: make([]collections.Collection, 0, n), Total: total}
	seen := make(map[string]bool, n)
	data.ForEach(func(_, item gjson.Result) bool {
		var c collections.Collection
		if c, err = parseItem(item); err == nil && seen[c.Key()] {
			err = fmt.Errorf("%s is on the page twice", c.Address)
		}
		if err != nil {
			err = fmt.Errorf("collection %d of the response: %w", len(page.Items)+1, err)
			return false
		}
		seen[c.Key()] = true
		page.Items = append(page.Items, c)
		return true
	})
	return page, err
}

// checkCount returns an error unless a page of n items can be part of a listing with a total.
func checkCount(n int, total int64, q collections.Query) error {
	end := int64(q.Offset) + int64(n)
	switch {
	case n > q.Limit:
		return fmt.Errorf("response has %d collections, want at most %d", n, q.Limit)
	case n > 0 && total < end, n < q.Limit && total > end:
		return fmt.Errorf("response has %d collections from %d on, which contradicts its total of %d", n, q.Offset, total)
	}
	return nil
}

func parseItem(item gjson.Result) (c collections.Collection, err error) {
	if !item.IsObject() {
		return c, errors.New("not a JSON object")
	}
	if c, err = collections.Parse(item); err != nil {
		return c, err
	}
	if c.Metadata, err = parseMetadata(c.Metadata); err != nil {
		return c, fmt.Errorf("metadata of %s: %w", c.Address, err)
	}
	return c, nil
}

// maxMetadata is the maximum size of a collectionMetadata in bytes. Decoded JSON may need many times its size.
const maxMetadata = 64 * collections.MaxText

// parseMetadata converts a collectionMetadata to the documented form. Story's API names marketplaceMetadata
// openSeaMetadata, and totalSupply may be a number. It returns nil for nil, null, and more than maxMetadata bytes.
func parseMetadata(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || len(raw) > maxMetadata {
		return nil, nil
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // keep the digits
	if err := decoder.Decode(&fields); err != nil || fields == nil {
		return nil, err
	}
	if market, ok := fields["openSeaMetadata"]; ok {
		delete(fields, "openSeaMetadata")
		if _, ok := fields["marketplaceMetadata"]; !ok {
			fields["marketplaceMetadata"] = market
		}
	}
	bounded("", fields)
	if supply, ok := fields["totalSupply"].(json.Number); ok {
		fields["totalSupply"] = supply.String()
	}
	return json.Marshal(fields)
}

// prose holds the members whose texts may be truncated.
var prose = map[string]bool{"name": true, "symbol": true, "collectionName": true, "description": true}

// bounded returns the value of a member with truncated prose. It replaces other too long strings, and numbers beyond the range
// of floats, by nil.
func bounded(member string, value any) any {
	switch value := value.(type) {
	case string:
		if prose[member] {
			return collections.CutText(value)
		}
		if len(value) > collections.MaxText {
			return nil
		}
	case json.Number:
		if _, err := value.Float64(); err != nil {
			return nil
		}
	case map[string]any:
		for name, v := range value {
			value[name] = bounded(name, v)
		}
	case []any:
		for i, item := range value {
			value[i] = bounded(member, item)
		}
	}
	return value
}

// refusal returns the error for a response other than 200. The server's text is only for the log.
func (s *httpStore) refusal(res *http.Response, body []byte) error {
	var problem struct{ Title, Detail string }
	_ = json.Unmarshal(body, &problem)                                                   // ignore bodies of another form
	reason := s.secret.Replace(cmp.Or(problem.Detail, problem.Title, "no reason given")) // before truncation, because half a key would not be found
	err := fmt.Errorf("status %d: %.200s", res.StatusCode, reason)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		silent := collections.Busy(err)
		silent.RetryAfter = min(max(upstream.RetryAfter(res.Header), time.Second), time.Hour) // limits Retry-After
		return silent
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return &upstream.Error{Kind: upstream.Timeout, Msg: collections.OriginName + " did not answer in time", Err: err}
	}
	if res.StatusCode >= 500 {
		return &upstream.Error{Kind: upstream.Unreachable, Msg: collections.OriginName + " cannot be reached", Err: err}
	}
	return collections.Unusable(err) // an unknown key, a bad request, or a redirect
}
