package collections

import (
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnknownOrderIsTheDefault(t *testing.T) {
	unknown, known := defaultRequest(), defaultRequest()
	unknown.OrderBy = "name"
	expect.Equal(t, unknown.listing().String(), known.listing().String(), "listing")
}

func TestOnlyAddressesOf40HexDigitsAreListed(t *testing.T) {
	address := "0x" + strings.Repeat("a", 40)
	for name, tt := range map[string]struct {
		sent, want []string
		nothing    bool
	}{
		"none":                   {nil, nil, false},
		"an address":             {[]string{address}, []string{address}, false},
		"repeated in upper case": {[]string{"0X" + strings.ToUpper(address[2:]), address}, []string{address}, false},
		"39 digits":              {[]string{address[:41]}, nil, true},
		"41 digits":              {[]string{address + "a"}, nil, true},
		"not a hex digit":        {[]string{address[:41] + "g"}, nil, true},
		"no prefix":              {[]string{address[2:]}, nil, true},
	} {
		r := defaultRequest()
		r.Where.Addresses = tt.sent
		if l := r.listing(); !slices.Equal(l.Query.Addresses, tt.want) || l.Nothing != tt.nothing {
			t.Errorf("%s: addresses = %q, Nothing = %t; want %q, %t", name, l.Query.Addresses, l.Nothing, tt.want, tt.nothing)
		}
	}
}

func TestValuesOfAnotherTypeAreViolations(t *testing.T) {
	s := newListSchema("", "")
	for body, want := range map[string]string{
		`{"where":{"collectionAddresses":["0x1"]}}`: "",
		`{"where":{"collectionAddresses":"0x1"}}`:   "expected array",
		`{"where":{"collectionAddresses":{}}}`:      "expected array",
		`{"where":[]}`:                              "expected object",
		`{"orderBy":[]}`:                            "expected string",
		`{"orderBy":7}`:                             "expected string",
		`{"orderBy":"name"}`:                        "expected value to be one of",
		`{"pagination":{"limit":"7"}}`:              "expected integer",
		`{"pagination":{"limit":[7]}}`:              "expected integer",
		`{"pagination":{"limit":7}}`:                "",
	} {
		found, err := s.validate([]byte(body))
		var got string
		for _, v := range found {
			got += v.Message
		}
		if err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("violations of %s = %q, %v; want %q", body, got, err, want)
		}
	}
}
