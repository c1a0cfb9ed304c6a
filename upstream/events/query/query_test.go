package query_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/events/query"
	"github.com/tipcache/tipcache/upstream/expect"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data := expect.Value(os.ReadFile("testdata/" + name))(t)
	return data
}

// recorded returns queries that were sent to a node, with its errors.
func recorded(t testing.TB) (all []struct{ Query, Error string }) {
	t.Helper()
	for line := range bytes.Lines(read(t, "queries.jsonl")) {
		all = append(all, struct{ Query, Error string }{})
		expect.NoError(t, json.Unmarshal(line, &all[len(all)-1]))
	}
	return all
}

func errorOf(input string) string {
	if _, err := query.Parse(input); err != nil {
		return err.Error()
	}
	return ""
}

func TestParseReturnsNodesRecordedErrors(t *testing.T) {
	for _, r := range recorded(t) {
		if got := errorOf(r.Query); got != r.Error {
			t.Errorf("Parse(%q) = error %q, want the node's %q", r.Query, got, r.Error)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for input, want := range map[string]string{
		"foo='a' !":                     "offset 8: got invalid token, want 6",
		"foo='a' DATE 2026":             "offset 8: got invalid token, want 6",
		"foo=DATE 3000-01-01":           "offset 4: datestamp year 3000 out of range",
		"foo=TIME 1899-01-01T00:00:00Z": "offset 4: timestamp year 1899 out of range",
		"TIME ='a'":                     `offset 0: invalid TIME value: parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"`,
		"é<":                            "offset 3: EOF",
		"foo='a' 'unfinished":           "",
	} {
		expect.Equal(t, errorOf(input), want, "error of Parse(%q)", input)
	}
}

func TestStringNormalizesSpacing(t *testing.T) {
	for input, want := range map[string]string{
		"  a.b =\t5AND c   EXISTS ": "a.b = 5 AND c EXISTS",
		"a.b=05":                    "a.b = 05",
		"a>=5. AND b CONTAINS 'x'":  "a >= 5. AND b CONTAINS 'x'",
		"a<DATE 2026-01-01":         "a < DATE 2026-01-01",
		"c EXISTS AND a.b=5":        "c EXISTS AND a.b = 5",
	} {
		q, err := query.Parse(input)
		if err != nil || q.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", input, q, err, want)
		}
	}
}

func TestMatchesLikeTheNode(t *testing.T) {
	var recording struct {
		Events  map[string]query.Tags
		Queries []struct {
			Query   string
			Matches []string
		}
	}
	expect.NoError(t, json.Unmarshal(read(t, "matches.json"), &recording))
	for _, r := range recording.Queries {
		q := expect.Value(query.Parse(r.Query))(t)
		got := []string{}
		for hash, tags := range recording.Events {
			if q.Matches(tags) {
				got = append(got, hash)
			}
		}
		slices.Sort(got)
		expect.NoDiff(t, got, r.Matches, "events that match %s", r.Query)
	}
}

func TestConditionMatchesAnyValueOfItsTag(t *testing.T) {
	zeros, nines := strings.Repeat("0", 100_000), strings.Repeat("9", 100_000)
	tags := query.Tags{"long.zeros": {zeros + "7"}, "long.nines": {nines}, "long.text": {strings.Repeat("x", 2000)}, "long.fraction": {"1." + zeros + "1"}, "long.both": {zeros + "2.5" + nines}, "a.b.c": {"5stake", "-7", "2026-01-02"}, "t.at": {"2026-01-01T01:00:00+01:00"}, "n.big": {"99999999999999999999999999999999999999999999"}}
	for input, want := range map[string]bool{
		"a.b.c=5": true, "a.b.c='5'": false, "a.b.c>=5.0 AND a.b.c<6": true, "a.b.c=7": false, "a.b.c>4 AND a.b.c<4": false,
		"a.b EXISTS": true, "a.b=''": true, "a EXISTS": false, "a.b.c=''": false, "a.b>0": false,
		"a.b.c>DATE 2026-01-01": true, "a.b.c=TIME 2026-01-02T00:00:00Z": false, "t.at=TIME 2026-01-01T00:00:00Z": true,
		"t.at<=DATE 2027-01-01": false, "n.big=99999999999999999999999999999999999999999999": true,
		"n.big>99999999999999999999999999999999999999999998": true, "n.big<1": false,
		"long.zeros=7": true, "long.zeros=007.0": true, "long.zeros<7": false, "long.nines>" + nines[:400]: true, "long.nines<=" + nines[:400]: false,
		"long.text>=0": false, "long.fraction=1": true, "long.fraction>1.1": false, "long.both>2.5": true, "long.both<2.7": true, "long.both=2.7": false,
	} {
		q := expect.Value(query.Parse(input))(t)
		expect.Equal(t, q.Matches(tags), want, "%s: Matches", input)
	}
}

func TestEqualityReturnsARequiredValue(t *testing.T) {
	for input, want := range map[string]string{
		"tm.event='Tx'":                    "tm.event Tx",
		"tm.event='Tx' AND a.b='c'":        "a.b c",
		"a.b='c' AND tm.event='Tx'":        "a.b c",
		"a='' AND b=5 AND c CONTAINS 'd'":  "",
		"tm.event='Tx' AND tx.height=5":    "tm.event Tx",
		"a.b='c' AND a.b='d' AND e EXISTS": "a.b d",
	} {
		q := expect.Value(query.Parse(input))(t)
		tag, value := q.Equality()
		expect.Equal(t, strings.TrimSpace(tag+" "+value), want, "%s: Equality", input)
	}
}

func FuzzQuery(f *testing.F) {
	for _, r := range recorded(f) {
		f.Add(r.Query, "a.b", "5stake")
	}
	f.Fuzz(func(t *testing.T, input, tag, value string) {
		q, err := query.Parse(input)
		if err != nil {
			return
		}
		again, err := query.Parse(q.String())
		if err != nil && (strings.Contains(input, "TIME") || strings.Contains(input, "DATE")) {
			return // a tag named TIME or DATE must not be followed by a space
		}
		if err != nil || again.String() != q.String() {
			t.Fatalf("Parse(%q) = %q, and parsing this = %v, %v; want the same query", input, q, again, err)
		}
		tags := query.Tags{tag: {value}, "tm.event": {"Tx"}}
		matches := q.Matches(tags)
		if again.Matches(tags) != matches {
			t.Errorf("Matches differs between %q and its normalized form %q", input, again)
		}
		if tag, value := q.Equality(); tag != "" && matches && !slices.Contains(tags[tag], value) {
			t.Errorf("%q matches an event without the value that Equality returns", input)
		}
	})
}
