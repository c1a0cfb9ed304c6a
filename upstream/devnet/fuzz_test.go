package devnet_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// Whatever is asked, the node answers in its own way. Only a descending page
// from the last item may drop the connection.
func FuzzRequests(f *testing.F) {
	f.Add("/staking/validators", "pagination.key=%14&pagination.reverse=T&status=", "5", "")
	f.Add("/staking/validators/"+v5+"/delegations", "pagination.offset=3&pagination.limit=18446744073709551615", "-1", "")
	f.Add("/distribution/validators/"+v5+"/slashes", "starting_height=1&ending_height=9", "1000", `{"Pagination":{"Limit":1}}`)
	f.Add("/staking/../bank//supply/by_denom", "denom=stake;", "x", "[")
	d := start(f, devnet.Options{Interval: -1, Delegators: 20})
	base, err := url.Parse(d.NodeURL())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, query, height, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		target := url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/" + path, RawQuery: url.PathEscape(query)}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), strings.NewReader(body))
		if err != nil {
			t.Skip(err)
		}
		r.Header["X-Block-Height"] = []string{strings.Map(printable, height)}
		resp, err := client.Do(r)
		if err != nil {
			if !strings.Contains(strings.ToLower(query+body), "reverse") {
				t.Fatal(err)
			}
			return
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && !json.Valid(answer) {
			t.Errorf("%d %s", resp.StatusCode, answer)
		}
	})
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}
