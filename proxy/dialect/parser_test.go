package dialect

import (
	"errors"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// lookup returns the fields of a dialect for this test.
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
		"the order of the row, pagination last":     {Strict, "pagination.limit=5&two_words=1", "two_words=1&pagination.limit=5", ""},
		"the first value of a name":                 {Strict, "two_words=1&two_words=2", "two_words=1", ""},
		"an empty value of a kind that keeps it":    {Lenient, "many=", "many=", ""},
		"all values of a list":                      {Strict, "many=b&many=a&many=b", "many=b&many=a&many=b", ""},
		"values equal to the default removed":       {Strict, "two_words=0&pagination.key=", "", ""},
		"names that the row lacks removed":          {Strict, "x=1&twowords2=1&TWO_WORDS=1&=1&", "", ""},
		"necessary escapes only":                    {Strict, "many=%61%20b%2Fc&many=d%40", "many=a%20b%2Fc&many=d%40", ""},
		"a malformed value":                         {Strict, "two_words=xx", "", `two_words is "xx"; expected a digit`},
		"a value with an invalid escape":            {Strict, "two_words=%zz", "", `two_words is "%zz"; expected valid percent-encoding`},
		"an invalid escape in a second value":       {Strict, "two_words=1&two_words=%zz", "two_words=1", ""},
		"lenient: invalid escapes are skipped":      {Lenient, "two_words=%zz&%zz=1&two_words=2;x=1&two_words=3", "two_words=3", ""},
		"lenient: names in any case":                {Lenient, "Two_Words[]=1", "two_words=1", ""},
		"lenient: an exact name wins":               {Lenient, "Two_Words=1&two_words[]=2&two_words=3", "two_words=2", ""},
		"lenient: an exact pagination wins":         {Lenient, "PAGINATION.LIMIT=1&pagination.REVERSE=true&Pagination.offset=3", "pagination.reverse=true", ""},
		"lenient: also one with unknown names":      {Lenient, "PAGINATION.LIMIT=1&pagination.x=3", "", ""},
		"lenient: else the first pagination":        {Lenient, "PAGINATION.LIMIT=1&PAGINATION.limit=2&Pagination.offset=3", "pagination.limit=2", ""},
		"gateway: the alias of a field":             {Gateway, "twowords=1", "two_words=1", ""},
		"gateway: a field by both names":            {Gateway, "twowords=1&two_words=1", "", errAmbiguous.Error()},
		"gateway: an invalid escape":                {Gateway, "x=%zz", "", errAmbiguous.Error()},
		"gateway: a semicolon":                      {Gateway, "x=1;y=2", "", errAmbiguous.Error()},
		"gateway: brackets":                         {Gateway, "many[a]=1", "", errAmbiguous.Error()},
		"gateway: a member of a field":              {Gateway, "pagination.limit.x=1", "", errAmbiguous.Error()},
		"gateway: the parent of a field":            {Gateway, "pagination=1", "", errAmbiguous.Error()},
		"gateway: a field of the path":              {Gateway, "thing_id=9&rest.x=1", "", ""},
		"gateway: the alias of a field of the path": {Gateway, "thingid=9", "", errAmbiguous.Error()},
		"gateway: an empty number":                  {Gateway, "two_words=", "", `two_words is ""; expected a digit`},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, err := parserOf(t, testRow, tt.manner).ReadQuery(tt.raw)
			if got := string(v.Append(nil)); got != tt.want || errorText(err) != tt.fails {
				t.Errorf("ReadQuery(%s) = %q, %q; want %q, %q", tt.raw, got, errorText(err), tt.want, tt.fails)
			}
		})
	}
}

// errorText returns the public text of an error, "" for nil.
func errorText(err error) string {
	switch {
	case err == nil:
		return ""
	case err == errAmbiguous: //nolint:errorlint // clients never see it
		return err.Error()
	default:
		return failure.Of(err).Public
	}
}

func TestUnknownFieldOfRowIsAnError(t *testing.T) {
	refuse := func(word string, _ bool) (Field, error) {
		if strings.HasPrefix(word, "bad") {
			return Field{}, errors.New("unknown")
		}
		return Field{Name: word}, nil
	}
	for row, valid := range map[Row]bool{
		{Pattern: "/things/{id}", Query: "good"}:     true,
		{Pattern: "/things/{bad}", Query: "good"}:    false,
		{Pattern: "/things/{id}", Query: "good bad"}: false,
	} {
		if _, err := NewParser(row, Strict, refuse); (err == nil) != valid {
			t.Errorf("NewParser(%s, %s) = %v, want success: %t", row.Pattern, row.Query, err, valid)
		}
	}
}

func TestArbitraryParametersAreSortedByName(t *testing.T) {
	p := parserOf(t, Row{Name: "other", Pattern: "/{path=**}", Query: Anything}, Gateway)
	v, unknown, err := p.ReadQuery("b=2&a=2&b=1&a=1")
	if got := string(v.Append(nil)); got != "a=2&a=1&b=2&b=1" || unknown || err != nil {
		t.Errorf("ReadQuery = %q, unknown: %t, %v; want a=2&a=1&b=2&b=1", got, unknown, err)
	}
}

func TestPathHasCanonicalForm(t *testing.T) {
	p := parserOf(t, testRow, Strict)
	for path, want := range map[string]string{
		"/things/1/a/b": "/things/1/a/b",
		"/things/0/a":   "/things/0/a", // the path keeps default values
		"/things/xx/a":  `thing_id is "xx"; expected a digit`,
		"/things/../a":  "no such path: /things/..",
		"/things/1/..":  "no such path: /things/1/..",

		"/things/1/a/../b": "no such path: /things/1/a/..",
	} {
		got, err := p.ReadPath(path)
		if got+errorText(err) != want {
			t.Errorf("ReadPath(%s) = %q, %q; want %q", path, got, errorText(err), want)
		}
	}
}

func TestKeyEscapesSpecialCharacters(t *testing.T) {
	q := blocks.Read{Ask: node.Request{Path: "/a?b@c*d/é:=,"}}
	setKey(&q, "p", Values{{Name: "x y", Text: "@&=?*+"}})
	if want := "p/a%3Fb%40c%2Ad/%C3%A9:=,?x%20y=%40%26%3D%3F%2A%2B"; q.Key != want || q.Ask.Query != want[strings.Index(want, "?")+1:] {
		t.Errorf("key = %q with query %q, want %q", q.Key, q.Ask.Query, want)
	}
}
