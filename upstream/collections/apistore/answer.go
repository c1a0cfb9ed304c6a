package apistore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/jsontext"
)

// parsePage decodes a response with at most limit items. It counts them first, because empty collections need much more memory than
// their text.
func parsePage(body []byte, limit int) (page collections.Page, err error) {
	if !jsontext.Valid(body) {
		return page, errors.New("response is not a page: invalid JSON")
	}
	data, total := gjson.GetBytes(body, "data"), gjson.GetBytes(body, "pagination.total")
	if !data.IsArray() || total.Type != gjson.Number || total.Int() < 0 {
		return page, errors.New("response has no data or no valid pagination.total")
	}
	n := 0
	if data.ForEach(func(_, _ gjson.Result) bool { n++; return true }); n > limit {
		return page, fmt.Errorf("response has %d collections, want at most %d", n, limit)
	}
	page = collections.Page{Items: make([]collections.Collection, 0, limit), Total: total.Int()}
	data.ForEach(func(_, item gjson.Result) bool {
		var c collections.Collection
		if c, err = parseItem(item.Raw); err == nil {
			page.Items = append(page.Items, c)
		}
		return err == nil
	})
	return page, err
}

func parseItem(text string) (c collections.Collection, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("collection of the response: %w", err)
	}
	switch {
	case !collections.IsAddress(c.Address):
		return c, errors.New("a collection of the response has no address")
	case !collections.IsTime(c.CreatedAt) || !collections.IsTime(c.UpdatedAt):
		return c, fmt.Errorf("times of %s are not in the years 1 to 9999", c.Address)
	}
	if c.Metadata, err = parseMetadata(c.Metadata); err != nil {
		return c, fmt.Errorf("metadata of %s: %w", c.Address, err)
	}
	c.CreatedAt, c.UpdatedAt = c.CreatedAt.UTC().Truncate(time.Microsecond), c.UpdatedAt.UTC().Truncate(time.Microsecond)
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
