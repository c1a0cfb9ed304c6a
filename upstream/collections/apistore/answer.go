package apistore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

// listAnswer is the documented answer. What it has beyond is not looked at.
type listAnswer struct {
	Data       []collections.Collection `json:"data"`
	Pagination *struct {
		Total *int64 `json:"total"`
	} `json:"pagination"`
}

// parsePage reads an answer that may have limit items.
func parsePage(body []byte, limit int) (collections.Page, error) {
	var answer listAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return collections.Page{}, fmt.Errorf("the answer is not a page: %w", err)
	}
	if answer.Data == nil || answer.Pagination == nil || answer.Pagination.Total == nil {
		return collections.Page{}, fmt.Errorf("the answer lacks data or pagination.total")
	}
	if len(answer.Data) > limit {
		return collections.Page{}, fmt.Errorf("the answer has %d collections instead of %d", len(answer.Data), limit)
	}
	for i := range answer.Data {
		c := &answer.Data[i]
		if !collections.IsAddress(c.Address) {
			return collections.Page{}, fmt.Errorf("collection %d of the answer has no address", i)
		}
		var err error
		if c.Metadata, err = parseMetadata(c.Metadata); err != nil {
			return collections.Page{}, fmt.Errorf("the metadata of %s: %w", c.Address, err)
		}
		c.CreatedAt, c.UpdatedAt = c.CreatedAt.UTC().Truncate(time.Microsecond), c.UpdatedAt.UTC().Truncate(time.Microsecond)
	}
	return collections.Page{Items: answer.Data, Total: *answer.Pagination.Total}, nil
}

// parseMetadata brings a collectionMetadata into the documented form: Story's
// API calls the marketplace's part openSeaMetadata, and either may give
// totalSupply as a number. Nil, or JSON's null, is nil.
func parseMetadata(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // digit for digit
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

// prose are the members whose texts may be cut.
var prose = map[string]bool{"name": true, "symbol": true, "collectionName": true, "description": true}

// bounded cuts prose, and makes null what is too long otherwise, and numbers that no client could
// read. The value is that of a member.
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
		for name, of := range value {
			value[name] = bounded(name, of)
		}
	case []any:
		for i, item := range value {
			value[i] = bounded(member, item)
		}
	}
	return value
}

// refusal turns an answer other than 200 into an error. What the server says is for the log.
func (s *httpStore) refusal(res *http.Response, body []byte) error {
	var problem struct{ Title, Detail string }
	_ = json.Unmarshal(body, &problem)                                                   // a body of another form tells nothing
	reason := s.secret.Replace(cmp.Or(problem.Detail, problem.Title, "no reason given")) // before it is cut: half a key would not be found
	err := fmt.Errorf("status %d: %.200s", res.StatusCode, reason)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		silent := collections.Busy(err)
		silent.RetryAfter = min(max(upstream.RetryAfter(res.Header), time.Second), time.Hour) // whatever the server says
		return silent
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return &upstream.Error{Kind: upstream.Timeout, Msg: collections.OriginName + " did not answer in time", Err: err}
	}
	if res.StatusCode >= 500 {
		return &upstream.Error{Kind: upstream.Unreachable, Msg: collections.OriginName + " cannot be reached", Err: err}
	}
	return collections.Unusable(err) // a key it does not know, a request it does not understand, a redirect
}
