package respond_test

import (
	"testing"

	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAcceptIsReadByRFC9110(t *testing.T) {
	const typ = "text/event-stream"
	for name, tt := range map[string]struct {
		values []string
		weight int
		named  bool
	}{
		"no header":                        {nil, 1000, false},
		"its name":                         {[]string{"text/event-stream"}, 1000, true},
		"its name in capitals":             {[]string{"Text/Event-Stream"}, 1000, true},
		"another name that begins with it": {[]string{"text/event-streamx"}, 0, false},
		"another name that ends with it":   {[]string{"x-text/event-stream"}, 0, false},
		"a weight":                         {[]string{"text/html, text/event-stream; q=0.5"}, 500, true},
		"not at all":                       {[]string{"text/event-stream;q=0"}, 0, true},
		"not, though all others":           {[]string{"*/*, text/event-stream;q=0.000"}, 0, true},
		"a weight after a parameter":       {[]string{"text/event-stream;charset=utf-8;Q=0.2"}, 200, true},
		"a weight that is none":            {[]string{"text/event-stream;q=2, text/*;q=0.3"}, 300, false},
		"the second line":                  {[]string{"text/html", "text/event-stream"}, 1000, true},
		"a range":                          {[]string{"text/*;q=0.7, */*;q=0.1"}, 700, false},
		"everything":                       {[]string{"*/*;q=0.1"}, 100, false},
		"within quotes":                    {[]string{`text/html;x="a,text/event-stream,\",text/event-stream"`}, 0, false},
	} {
		if weight, named := respond.Preference(tt.values, typ); weight != tt.weight || named != tt.named {
			t.Errorf("%s: %d, named %t; want %d, %t", name, weight, named, tt.weight, tt.named)
		}
	}
}

func TestGzipIsWantedUnlessThePlainTextIsPreferred(t *testing.T) {
	for accept, want := range map[string]bool{"gzip": true, "": false, "gzip;q=0.5, identity": false, "gzip;q=0.5, identity;q=0.5": true, "*;q=0": false, "br": false} {
		expect.Equal(t, respond.WantsGzip([]string{accept}), want, "WantsGzip(%q)", accept)
	}
}
