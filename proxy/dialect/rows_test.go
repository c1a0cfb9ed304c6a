package dialect

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestUnreachableRowClashes(t *testing.T) {
	for _, tt := range []struct {
		before, row Row
		clash       bool
	}{
		{Row{Name: "a", Pattern: "/x"}, Row{Name: "a", Pattern: "/y"}, true},
		{Row{Name: "a", Method: "/m"}, Row{Name: "b", Method: "/m"}, true},
		{Row{Name: "a", Method: "/m"}, Row{Name: "b", Method: "/n"}, false},
		{Row{Name: "a", Pattern: "/x/{y}"}, Row{Name: "b", Pattern: "/x/y"}, true},
		{Row{Name: "a", Pattern: "/x/y"}, Row{Name: "b", Pattern: "/x/{y}"}, false},
		{Row{Name: "a", Pattern: "/x/{y}"}, Row{Name: "b", Pattern: "/x/y/z"}, false},
		{Row{Name: "a", Pattern: "/x/{y}/z"}, Row{Name: "b", Pattern: "/x/y"}, false},
		{Row{Name: "a", Pattern: "/x/{y=**}"}, Row{Name: "b", Pattern: "/x/y/z"}, true},
		{Row{Name: "a", Pattern: "/x/{y}"}, Row{Name: "b", Pattern: "/x/{y=**}"}, false},
		{Row{Name: "a", Pattern: "/x"}, Row{Name: "b", Method: "/m"}, false},
		{Row{Name: "a", Pattern: "/x/{"}, Row{Name: "b", Pattern: "/x/y"}, false},
	} {
		if err := Clash([]Row{{Name: "first", Pattern: "/first"}, tt.before}, tt.row); (err != nil) != tt.clash {
			t.Errorf("Clash of %+v after %+v = %v, want an error: %t", tt.row, tt.before, err, tt.clash)
		}
	}
}

func TestPatternsMatchPaths(t *testing.T) {
	all := expect.Value(ParsePatterns([]string{"/a/{b}", "/c/{d=**}"}))(t)
	for path, want := range map[string]bool{"/a/b": true, "/a/": true, "/a": false, "/a/b/c": false, "/c/d/e": true, "/c": false, "/d": false} {
		expect.Equal(t, all.Match(path), want, "Match(%s)", path)
	}
	for _, text := range []string{"a/b", "/a//b", "/{a=**}/b", "/{a", "/{}", "/{a=b}", "/{=**}"} {
		if _, err := ParsePatterns([]string{text}); err == nil {
			t.Errorf("ParsePatterns(%s): error = nil, want one", text)
		}
	}
	if _, err := NewParser(Row{Pattern: "/a/{b:list}"}, Strict, lookup); err == nil {
		t.Error("NewParser with a list in the path: error = nil, want one")
	}
}

func TestKeysOfARowAreSelectedByItsPattern(t *testing.T) {
	for pattern, want := range map[string]cache.Selection{
		"/a/{b}/c":      {Path: "p/a/*/c"},
		"/a/{b=**}":     {Prefix: "p/a/"},
		"/a/{b}/{c=**}": {Prefix: "p/a/", Contains: "/"},
	} {
		expect.Equal(t, (Row{Pattern: pattern}).selection("p"), want, "selection of %s", pattern)
	}
	rows := []Row{{Name: "a", Class: blocks.Live, Method: "/m"}, {Name: "b", Class: blocks.Params, Method: "/m"}, {Name: "c"}}
	if methods := MethodRows(rows); len(methods) != 1 || methods["/m"].Name != "a" {
		t.Errorf("MethodRows = %v, want a", methods)
	}
}

func TestProbableTyposAreNamed(t *testing.T) {
	p := parserOf(t, testRow, Strict)
	for raw, want := range map[string]string{
		"two_words=1&pagination.limit=2": "",
		"limit=2":                        "limit (did you mean pagination.limit?)",
		"Limits=2":                       "Limits (did you mean pagination.limit?)",
		"two_word=1&maby=2":              "two_word (did you mean two_words?), maby (did you mean many?)",
		"tw_wods=1":                      "tw_wods (did you mean two_words?)",
		"tw_wds=1":                       "",
		"%6Dany=1&%6Daby=1":              "maby (did you mean many?)",
		"%zz=1&=2&mab%20=3&other=4":      "",
		"maby=1&maby=2":                  "maby (did you mean many?)",
	} {
		expect.Equal(t, p.typos(raw), want, "typos(%s)", raw)
	}
	named := p.typos("manya=1&manyb=1&manyc=1&manyd=1&manye=1&manyf=1")
	expect.Equal(t, strings.Count(named, "did you mean"), maxTypos, "typos named in %s", named)
	for unknown, want := range map[int]int{maxCompared - 1: 1, maxCompared: 0} {
		named := p.typos(strings.Repeat("zzz=1&", unknown) + "manya=1")
		expect.Equal(t, strings.Count(named, "did you mean"), want, "typos named after %d unknown names", unknown)
	}
	if !isParameterName("abcdefghijabcdefghijabcdefghijabcdefghij") || isParameterName("abcdefghijabcdefghijabcdefghijabcdefghijk") {
		t.Error("isParameterName is wrong for 40 or 41 bytes, want 40 as the limit")
	}
}

func TestValuesAreReadAndReplaced(t *testing.T) {
	v := Values{{Name: PageLimit, Text: "1000"}, {Name: "a", Text: "b"}}
	if v.Get("a") != "b" || v.Get("x") != "" || v.Number(PageLimit) != 1000 || v.Number("x") != 0 || v.Large() {
		t.Errorf("Get, Number or Large of %v is wrong, want b, 1000 and false", v)
	}
	if v = v.With(PageLimit, "0x3e9"); !v.Large() || string(v.Append(nil)) != "pagination.limit=0x3e9&a=b" {
		t.Errorf("values = %s with Large %t, want pagination.limit=0x3e9&a=b with true", v.Append(nil), v.Large())
	}
	v = v.With("a", "").With("x", "y")
	expect.Equal(t, string(v.Append(nil)), "pagination.limit=0x3e9", "values")
}

func TestLargePageOfAnUncertainQueryCostsAScan(t *testing.T) {
	for query, want := range map[string]node.Cost{
		"pagination.limit=1001&x=%zz": node.Scan, "pagination.limit=1000&x=%zz": node.Page,
		"pagination.limit[1001]=": node.Scan, "pagination.limit=1&pagination.limit=1001": node.Scan, "pagination.limits=1001": node.Page,
	} {
		ep := &Endpoint{table: &Table{Options: Options{Prefix: "p", Manner: Gateway}}, Parser: parserOf(t, testRow, Gateway)}
		q := &blocks.Read{Ask: node.Request{Cost: node.Page}}
		ep.keepVerbatim(q, expect.Value(url.Parse("/things/1/a:?"+query))(t))
		if q.Ask.Cost != want || !Uncertain(q.Key) || q.Ask.Path != "/things/1/a" || q.Key != "p/things/1/a?!"+query || q.Ask.Query != query {
			t.Errorf("query %s = %+v, want cost %v", query, q, want)
		}
	}
}
