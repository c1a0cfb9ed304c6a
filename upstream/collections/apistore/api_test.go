package apistore_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
	"github.com/tipcache/tipcache/upstream/expect"
)

const somePage = `{"data":[` + someItem + `],"pagination":{"total":4}}`

const someItem = `{"collectionAddress":"0xAbc0000000000000000000000000000000000001","assetCount":7,"licensesCount":1,"raisedDisputeCount":2,` +
	`"cancelledDisputeCount":3,"judgedDisputeCount":4,"resolvedDisputeCount":5,"createdAt":"2025-01-02T03:04:05Z",` +
	`"updatedAt":"2025-01-02T04:04:05.5+01:00","unknown":[]}`

// open returns the driver for a server with a handler.
func open(t *testing.T, o collections.Options, handler http.HandlerFunc) collections.Driver {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, driver, err := apistore.Open(t.Context(), server.URL, o)
	expect.NoError(t, err)
	t.Cleanup(func() { driver.Close() })
	return driver
}

func TestListReturnsPageOrClassifiedError(t *testing.T) {
	metadata := func(value string) string {
		return strings.Replace(somePage, `"assetCount"`, `"collectionMetadata":`+value+`,"assetCount"`, 1)
	}
	with := func(old, new string) string { return strings.Replace(somePage, old, new, 1) }
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	for name, tt := range map[string]struct {
		status int // 0 aborts the response
		header map[string]string
		body   string
		kind   upstream.Kind // of the error; 0 means no error
		wait   time.Duration // of the error
		cause  string        // part of the error
	}{
		"page":                       {200, nil, somePage, 0, 0, ""},
		"not JSON":                   {200, nil, "<html>", upstream.BadAnswer, 0, "not a page"},
		"no data":                    {200, nil, `{"pagination":{"total":1}}`, upstream.BadAnswer, 0, "no data"},
		"data null":                  {200, nil, `{"data":null,"pagination":{"total":0}}`, upstream.BadAnswer, 0, "no data"},
		"no pagination":              {200, nil, `{"data":[]}`, upstream.BadAnswer, 0, "pagination.total"},
		"no total":                   {200, nil, `{"data":[],"pagination":{}}`, upstream.BadAnswer, 0, "pagination.total"},
		"negative total":             {200, nil, `{"data":[],"pagination":{"total":-1}}`, upstream.BadAnswer, 0, "pagination.total"},
		"total is a fraction":        {200, nil, with(`"total":4`, `"total":4.5`), upstream.BadAnswer, 0, "pagination.total"},
		"total below the items":      {200, nil, with(`"total":4`, `"total":3`), upstream.BadAnswer, 0, "contradicts its total of 3"},
		"total above the last item":  {200, nil, with(`"total":4`, `"total":5`), upstream.BadAnswer, 0, "contradicts its total of 5"},
		"empty page before the end":  {200, nil, `{"data":[],"pagination":{"total":4}}`, upstream.BadAnswer, 0, "contradicts its total of 4"},
		"a collection twice":         {200, nil, with(someItem+`],"pagination":{"total":4`, someItem+","+strings.Replace(someItem, "0xAbc", "0xaBC", 1)+`],"pagination":{"total":5`), upstream.BadAnswer, 0, "on the page twice"},
		"invalid address":            {200, nil, with("0xAbc", "0x"), upstream.BadAnswer, 0, "collectionAddress: must be"},
		"not an object":              {200, nil, with(someItem, "7"), upstream.BadAnswer, 0, "not a JSON object"},
		"no fields":                  {200, nil, with(someItem, "{}"), upstream.BadAnswer, 0, "missing"},
		"missing count":              {200, nil, with(`"judgedDisputeCount":4,`, ""), upstream.BadAnswer, 0, "judgedDisputeCount: missing"},
		"missing time":               {200, nil, with(`"createdAt":"2025-01-02T03:04:05Z",`, ""), upstream.BadAnswer, 0, "createdAt: missing"},
		"null count":                 {200, nil, with(`"assetCount":7`, `"assetCount":null`), upstream.BadAnswer, 0, "assetCount: must be an integer"},
		"negative count":             {200, nil, with(`"assetCount":7`, `"assetCount":-7`), upstream.BadAnswer, 0, "assetCount: must not be negative"},
		"year 1":                     {200, nil, with("2025-01-02T03:04:05Z", "0001-01-01T00:00:00Z"), upstream.BadAnswer, 0, "must be set"},
		"year 10000":                 {200, nil, strings.Replace(somePage, "2025-01-02T04:04:05.5+01:00", "9999-12-31T23:59:59-01:00", 1), upstream.BadAnswer, 0, "years 1 to 9999"},
		"metadata is a list":         {200, nil, metadata("[]"), upstream.BadAnswer, 0, "metadata"},
		"more items than the limit":  {200, nil, `{"data":[{},{},{}],"pagination":{"total":3}}`, upstream.BadAnswer, 0, "3 collections, want at most 2"},
		"too large":                  {200, nil, somePage + strings.Repeat(" ", 8<<20), upstream.BadAnswer, 0, "exceeds 8388608"},
		"truncated":                  {200, header("Content-Length", "100000"), somePage, upstream.Unreachable, 0, "EOF"},
		"aborted":                    {0, nil, "", upstream.Unreachable, 0, "EOF"},
		"redirect":                   {307, header("Location", "https://elsewhere/"), "", upstream.BadAnswer, 0, "307"},
		"unknown key":                {401, nil, `{"title":"Unauthorized","detail":"unknown key"}`, upstream.BadAnswer, 0, "unknown key"},
		"request timeout":            {408, nil, `{}`, upstream.Timeout, 0, "408"},
		"refused request":            {422, nil, `{"title":"Unprocessable Entity"}`, upstream.BadAnswer, 0, "Unprocessable"},
		"rate limit":                 {429, header("Retry-After", "7"), "", upstream.Overloaded, 7 * time.Second, "429"},
		"rate limit without a time":  {429, nil, "not JSON", upstream.Overloaded, time.Second, "429"},
		"status 500 with a page":     {500, nil, somePage, upstream.Unreachable, 0, "500"},
		"unavailable for long":       {503, header("Retry-After", "999999999"), "", upstream.Overloaded, time.Hour, "503"},
		"unavailable until the past": {503, header("Retry-After", "Thu, 01 Jan 2026 00:00:00 GMT"), "", upstream.Overloaded, time.Second, "503"},
		"timeout of a gateway":       {504, nil, `{}`, upstream.Timeout, 0, "504"},
	} {
		t.Run(name, func(t *testing.T) {
			driver := open(t, collections.Options{Settings: collections.Settings{StoreKey: "secret"}}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				want := `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":2,"offset":3}}`
				if r.Method != http.MethodPost || string(body) != want || r.Header.Get("X-Api-Key") != "secret" {
					t.Errorf("request = %s %s with key %q, want POST %s with the key", r.Method, body, r.Header.Get("X-Api-Key"), want)
				}
				if tt.status == 0 {
					panic(http.ErrAbortHandler)
				}
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			})
			page, err := driver.List(t.Context(), collections.Query{OrderBy: collections.AssetCount, Desc: true, Limit: 2, Offset: 3})
			if failure, ok := errors.AsType[*upstream.Error](err); ok {
				expect.Equal(t, failure.Kind, tt.kind, "kind of error (%v)", err)
				expect.Equal(t, failure.RetryAfter, tt.wait, "RetryAfter")
				expect.Contains(t, err.Error(), tt.cause, "error")
				if !strings.HasPrefix(failure.Msg, "the collection store ") || strings.ContainsAny(failure.Msg, ":/0123456789") || strings.Contains(err.Error(), "secret") {
					t.Errorf("message = %q of error %v, want one about the collection store without its address and key", failure.Msg, err)
				}
				return
			}
			expect.NoError(t, err)
			updated := time.Date(2025, 1, 2, 3, 4, 5, 5e8, time.UTC)
			if tt.kind != 0 || len(page.Items) != 1 || page.Items[0].AssetCount != 7 || page.Items[0].UpdatedAt != updated || page.Total != 4 {
				t.Errorf("List = %+v, nil, want one collection with 7 assets updated at %v, or an error of kind %v", page, updated, tt.kind)
			}
		})
	}
}

func TestMetadataHasDocumentedFormAndSize(t *testing.T) {
	const most = collections.MaxText
	text, accents := strings.Repeat("x", most), strings.Repeat("é", most/2)
	const huge = `{"totalSupply":"115792089237316195423570985008687907853269984665640564039457584007913129639935"}`
	for sent, want := range map[string]string{
		`null`:                                   ``,
		`{}`:                                     `{}`,
		`{"totalSupply":null}`:                   `{"totalSupply":null}`,
		`{"totalSupply":12345678901234567890}`:   `{"totalSupply":"12345678901234567890"}`,
		`{"totalSupply":"7"}`:                    `{"totalSupply":"7"}`,
		huge:                                     huge,
		`{"openSeaMetadata":{"floorPrice":0.5}}`: `{"marketplaceMetadata":{"floorPrice":0.5}}`,
		`{"openSeaMetadata":1,"marketplaceMetadata":2}`:                 `{"marketplaceMetadata":2}`,
		`{"name":"` + text + `x","image":"` + text + `"}`:               `{"image":"` + text + `","name":"` + text + `"}`,
		`{"name":"x` + accents + `","description":"` + accents + `é"}`:  `{"description":"` + accents + `","name":"x` + accents[:most-2] + `"}`,
		`{"a":[` + strings.Repeat("[],", 64*most/3) + `[]]}`:            ``,
		`{"a":{"image":"` + text + `x"},"b":["` + text + `x",1e999,2]}`: `{"a":{"image":null},"b":[null,null,2]}`,
	} {
		driver := open(t, collections.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(somePage, `"assetCount"`, `"collectionMetadata":`+sent+`,"assetCount"`, 1))
		})
		page := expect.Value(driver.List(t.Context(), collections.Query{Limit: 1, Offset: 3}))(t)
		expect.Equal(t, string(page.Items[0].Metadata), want, "metadata of %.60s", sent)
	}
}

func TestPingRequestsTheServerUnlessAListSucceededRecently(t *testing.T) {
	var status, requests atomic.Int64
	driver := open(t, collections.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, somePage)
	})
	list := func() error {
		_, err := driver.List(t.Context(), collections.Query{Limit: 1})
		return err
	}
	ping := func() error { return driver.Ping(t.Context()) }
	for i, step := range []struct {
		call     func() error
		status   int64
		requests int64 // of all steps so far
		works    bool
	}{
		{ping, 200, 1, true},
		{ping, 502, 1, true},
		{list, 502, 2, false},
		{ping, 502, 3, false},
		{ping, 200, 4, true},
		{list, 200, 5, true},
		{ping, 429, 5, true},
	} {
		status.Store(step.status)
		if err := step.call(); (err == nil) != step.works || requests.Load() != step.requests {
			t.Errorf("step %d with status %d = %v after %d requests, want success %t after %d", i, step.status, err, requests.Load(), step.works, step.requests)
		}
	}
}

func TestPingChecksServerAgainIfItsLastAnswerIsInTheFuture(t *testing.T) {
	var requests atomic.Int64
	driver := open(t, collections.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Connection", "close") // no connection may outlive the clock
		fmt.Fprint(w, somePage)
	})
	expect.Value(driver.List(t.Context(), collections.Query{Limit: 1}))(t)
	synctest.Test(t, func(t *testing.T) { // whose clock begins in the year 2000
		expect.NoError(t, driver.Ping(t.Context()))
	})
	expect.Equal(t, requests.Load(), 2, "requests")
}
