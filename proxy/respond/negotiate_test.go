package respond_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAcceptIsParsedAccordingToRFC9110(t *testing.T) {
	const typ = "text/event-stream"
	for name, tt := range map[string]struct {
		values []string
		weight int
		named  bool
	}{
		"no header":                        {nil, 1000, false},
		"the type":                         {[]string{"text/event-stream"}, 1000, true},
		"the type in another case":         {[]string{"Text/Event-Stream"}, 1000, true},
		"another type that begins with it": {[]string{"text/event-streamx"}, 0, false},
		"another type that ends with it":   {[]string{"x-text/event-stream"}, 0, false},
		"a weight":                         {[]string{"text/html, text/event-stream; q=0.5"}, 500, true},
		"weight 0":                         {[]string{"text/event-stream;q=0"}, 0, true},
		"weight 0, but all other types":    {[]string{"*/*, text/event-stream;q=0.000"}, 0, true},
		"a weight after a parameter":       {[]string{"text/event-stream;charset=utf-8;Q=0.2"}, 200, true},
		"an invalid weight":                {[]string{"text/event-stream;q=2, text/*;q=0.3"}, 300, false},
		"a second header line":             {[]string{"text/html", "text/event-stream"}, 1000, true},
		"a range of types":                 {[]string{"text/*;q=0.7, */*;q=0.1"}, 700, false},
		"any type":                         {[]string{"*/*;q=0.1"}, 100, false},
	} {
		if weight, named := respond.Preference(tt.values, typ); weight != tt.weight || named != tt.named {
			t.Errorf("%s: Preference = %d, named %t; want %d, %t", name, weight, named, tt.weight, tt.named)
		}
	}
}

func TestGzipIsWantedUnlessThePlainTextIsPreferred(t *testing.T) {
	for accept, want := range map[string]bool{"gzip": true, "": false, "gzip;q=0.5, identity": false, "gzip;q=0.5, identity;q=0.5": true, "*;q=0": false, "br": false} {
		expect.Equal(t, respond.WantsGzip([]string{accept}), want, "WantsGzip(%q)", accept)
	}
}
