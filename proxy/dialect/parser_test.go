package dialect

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/expect"
)

// The fields of a dialect that exists in this test alone: it takes a table and kinds.
func lookup(word string, _ bool) (Field, error) {
	name, kind, _ := strings.Cut(word, ":")
	f := Field{Name: name, Alias: strings.ReplaceAll(name, "_", ""), Kind: Kind{Read: func(v string) (string, bool) { return v, true }}}
	switch kind {
	case "number":
		f.Expects, f.Zero = "a digit", "0"
		f.Read = func(v string) (string, bool) { return strings.Trim(v, "0"), len(v) == 1 && '0' <= v[0] && v[0] <= '9' }
	case "list":
		f.List, f.Keep = true, true
	}
	return f, nil
}

var testRow = Row{Name: "things", Pattern: "/things/{thing_id:number}/{rest=**}", Query: "pagination two_words:number many:list"}

func parserOf(t *testing.T, row Row, manner Manner) *Parser {
	t.Helper()
	p := expect.Value(NewParser(row, manner, lookup))(t)
	return p
}

func TestQueryHasCanonicalForm(t *testing.T) {
	for name, tt := range map[string]struct {
		manner    Manner
		raw, want string
		fails     string
	}{
		"the order of the row, a page last":        {Strict, "pagination.limit=5&two_words=1", "two_words=1&pagination.limit=5", ""},
		"the first value of a name":                {Strict, "two_words=1&two_words=2", "two_words=1", ""},
		"an empty value of a kind that keeps it":   {Lenient, "many=", "many=", ""},
		"all values of a list":                     {Strict, "many=b&many=a&many=b", "many=b&many=a&many=b", ""},
		"no value that says nothing":               {Strict, "two_words=0&pagination.key=", "", ""},
		"no name that the row has not":             {Strict, "x=1&twowords2=1&TWO_WORDS=1&=1&", "", ""},
		"escapes where they are needed":            {Strict, "many=%61%20b%2Fc&many=d%40", "many=a%20b%2Fc&many=d%40", ""},
		"a malformed value is named":               {Strict, "two_words=xx", "", `two_words is "xx"; expected a digit`},
		"a broken value is named":                  {Strict, "two_words=%zz", "", `two_words is "%zz"; expected valid percent-encoding`},
		"a broken value behind the first is none":  {Strict, "two_words=1&two_words=%zz", "two_words=1", ""},
		"the lenient pass over what is broken":     {Lenient, "two_words=%zz&%zz=1&two_words=2;x=1&two_words=3", "two_words=3", ""},
		"the lenient take names in any case":       {Lenient, "Two_Words[]=1", "two_words=1", ""},
		"of these an exact name wins":              {Lenient, "Two_Words=1&two_words[]=2&two_words=3", "two_words=2", ""},
		"and of pages the exact one as a whole":    {Lenient, "PAGINATION.LIMIT=1&pagination.REVERSE=true&Pagination.offset=3", "pagination.reverse=true", ""},
		"even if it has nothing that is known":     {Lenient, "PAGINATION.LIMIT=1&pagination.x=3", "", ""},
		"or the first, whose exact names win":      {Lenient, "PAGINATION.LIMIT=1&PAGINATION.limit=2&Pagination.offset=3", "pagination.limit=2", ""},
		"a gateway takes both names of a field":    {Gateway, "twowords=1", "two_words=1", ""},
		"but not at once":                          {Gateway, "twowords=1&two_words=1", "", errAmbiguous.Error()},
		"a gateway refuses what is broken":         {Gateway, "x=%zz", "", errAmbiguous.Error()},
		"a gateway refuses semicolons":             {Gateway, "x=1;y=2", "", errAmbiguous.Error()},
		"a gateway reads brackets as values":       {Gateway, "many[a]=1", "", errAmbiguous.Error()},
		"a part of a field is read in no order":    {Gateway, "pagination.limit.x=1", "", errAmbiguous.Error()},
		"and so is what a field is a part of":      {Gateway, "pagination=1", "", errAmbiguous.Error()},
		"the path goes before the query":           {Gateway, "thing_id=9&rest.x=1", "", ""},
		"but for its other name":                   {Gateway, "thingid=9", "", errAmbiguous.Error()},
		"a gateway reads an empty number as wrong": {Gateway, "two_words=", "", `two_words is ""; expected a digit`},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, err := parserOf(t, testRow, tt.manner).ReadQuery(tt.raw)
			if got := string(v.Append(nil)); got != tt.want || said(err) != tt.fails {
				t.Errorf("%s is read as %q, %q; want %q, %q", tt.raw, got, said(err), tt.want, tt.fails)
			}
		})
	}
}

// said is what the client is told.
func said(err error) string {
	switch {
	case err == nil:
		return ""
	case err == errAmbiguous: //nolint:errorlint // no other one tells the client of it
		return err.Error()
	default:
		return failure.Of(err).Public
	}
}

func TestArbitraryParametersAreSortedByName(t *testing.T) {
	p := parserOf(t, Row{Name: "other", Pattern: "/{path=**}", Query: Anything}, Gateway)
	v, unknown, err := p.ReadQuery("b=2&a=2&b=1&a=1")
	if got := string(v.Append(nil)); got != "a=2&a=1&b=2&b=1" || unknown || err != nil {
		t.Errorf("got %q, %t, %v", got, unknown, err)
	}
}

func TestPathHasCanonicalForm(t *testing.T) {
	p := parserOf(t, testRow, Strict)
	for path, want := range map[string]string{
		"/things/1/a/b": "/things/1/a/b",
		"/things/0/a":   "/things/0/a", // what says nothing is not left out
		"/things/xx/a":  `thing_id is "xx"; expected a digit`,
		"/things/../a":  "no such path: /things/..",
		"/things/1/..":  "no such path: /things/1/..",
	} {
		got, err := p.ReadPath(path)
		if got+said(err) != want {
			t.Errorf("%s is read as %q %q, want %q", path, got, said(err), want)
		}
	}
}

func TestKeyEscapesSpecialCharacters(t *testing.T) {
	q := RowQuery{Path: "/a?b@c*d/é:=,"}
	q.setKey("p", Values{{Name: "x y", Text: "@&=?*+"}})
	if want := "p/a%3Fb%40c%2Ad/%C3%A9:=,?x%20y=%40%26%3D%3F%2A%2B"; q.Key != want || q.RawQuery != want[strings.Index(want, "?")+1:] {
		t.Errorf("got %q, %q", q.Key, q.RawQuery)
	}
}
