package collections_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

const line = `{"collectionAddress":"0xAbC0000000000000000000000000000000000001","assetCount":1,"licensesCount":2,` +
	`"raisedDisputeCount":3,"cancelledDisputeCount":4,"judgedDisputeCount":5,"resolvedDisputeCount":6,` +
	`"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-02T03:04:05.123456789+02:00"}`

func read(r io.Reader) (all []collections.Collection, err error) {
	for c, err := range collections.ReadJSONL(r, new(int)) {
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func TestReadJSONLReadsOneCollectionPerLine(t *testing.T) {
	want := collections.Collection{
		Address: "0xAbC0000000000000000000000000000000000001", AssetCount: 1, LicensesCount: 2,
		RaisedDisputeCount: 3, CancelledDisputeCount: 4, JudgedDisputeCount: 5, ResolvedDisputeCount: 6,
		CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), UpdatedAt: time.Date(2026, 1, 2, 1, 4, 5, 123456000, time.UTC),
	}
	for name, input := range map[string]string{
		"one line":               line,
		"newline at the end":     line + "\n",
		"Windows line ending":    line + "\r\n",
		"blank lines":            "\n  \n" + line + "\n\t\n",
		"a byte order mark":      "\ufeff" + line,
		"metadata of an export":  strings.Replace(line, `{`, `{"collectionMetadata":{"name":"x"},`, 1),
		"space between members":  strings.ReplaceAll(line, `,`, " ,\t"),
		"escapes in field names": strings.Replace(line, `assetCount`, `asset\u0043ount`, 1),
		"the longest line":       line + strings.Repeat(" ", 1<<20-len(line)),
	} {
		expect.NoDiff(t, expect.Value(read(strings.NewReader(input)))(t), []collections.Collection{want}, "%s", name)
	}
	if got, err := read(strings.NewReader("")); err != nil || len(got) != 0 {
		t.Errorf("collections of an empty file = %v, %v; want none", got, err)
	}
}

func TestReadJSONLRefusesInvalidLines(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(line, old, new, 1) }
	for name, test := range map[string]struct{ line, want string }{
		"a negative count":        {with(`:1,`, `:-1,`), "assetCount: must not be negative"},
		"a fraction":              {with(`:1,`, `:1.0,`), "assetCount: must be an integer"},
		"a count in quotes":       {with(`:1,`, `:"1",`), "assetCount: must be an integer"},
		"a count beyond 64 bits":  {with(`:1,`, `:9223372036854775808,`), "assetCount: must be an integer"},
		"a null":                  {with(`:6,`, `:null,`), "resolvedDisputeCount: must be an integer"},
		"a short address":         {with(`0xAbC`, `0xAb`), "collectionAddress: must be 0x and 40 hexadecimal digits"},
		"an address not in hex":   {with(`0xAbC`, `0xxyz`), "collectionAddress: must be 0x and 40 hexadecimal digits"},
		"an address with 0X":      {with(`0xAbC`, `0XAbC`), "collectionAddress: must be 0x and 40 hexadecimal digits"},
		"an address as a number":  {with(`"0xAbC0000000000000000000000000000000000001"`, `1`), "collectionAddress: must be a string"},
		"a time without a zone":   {with(`00:00Z`, `00:00`), "createdAt: must be a time such as 2026-01-02T15:04:05Z"},
		"a time as a number":      {with(`"2026-01-01T00:00:00Z"`, `1`), "createdAt: must be a time such as 2026-01-02T15:04:05Z"},
		"an end before the start": {with(`2026-01-01`, `2027-01-01`), "createdAt: must not be after updatedAt"},
		"a time in year 10000":    {with(`"updatedAt":"2026-01-02T03:04:05.123456789+02:00"`, `"updatedAt":"9999-12-31T23:59:59-01:00"`), "createdAt, updatedAt: must be in the years 1 to 9999 in UTC"},
		"a time before year 0":    {with(`2026-01-01T00:00:00Z`, `0000-01-01T00:00:00+01:00`), "createdAt, updatedAt: must be in the years 1 to 9999 in UTC"},
		"an unknown field":        {with(`{`, `{"name":"x",`), `"name": unknown field`},
		"a field in another case": {with(`assetCount`, `AssetCount`), `"AssetCount": unknown field`},
		"a repeated field":        {with(`{`, `{"assetCount":1,`), "assetCount: given twice"},
		"repeated metadata":       {with(`{`, `{"collectionMetadata":1,"collectionMetadata":1,`), "collectionMetadata: given twice"},
		"a missing field":         {with(`"licensesCount":2,`, ``), "licensesCount: missing"},
		"a list":                  {"[" + line + "]", "not a JSON object"},
		"two on a line":           {line + line, "not valid JSON"},
		"half a line":             {line[:50], "not valid JSON"},
		"a late byte order mark":  {"\ufeff" + line, "not valid JSON"},
		"too long a line":         {line + strings.Repeat(" ", 1<<20), "longer than 1048576 bytes"},
		"far too long a line":     {strings.Repeat(" ", 3<<20), "longer than 1048576 bytes"},
	} {
		got, err := read(strings.NewReader(line + "\n\n" + test.line + "\n" + line))
		if err == nil || err.Error() != "line 3: "+test.want || len(got) != 1 {
			t.Errorf("%s: %d collections, error %v; want 1, line 3: %s", name, len(got), err, test.want)
		}
	}
}

func TestReadJSONLReportsLineOfReadError(t *testing.T) {
	broken := errors.New("broken pipe")
	got, err := read(io.MultiReader(strings.NewReader(line+"\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "line 2: ") || len(got) != 1 {
		t.Errorf("%d collections, error %v; want 1, line 2: %v", len(got), err, broken)
	}
}

func TestReadJSONLCountsIgnoredMetadata(t *testing.T) {
	var input strings.Builder
	for _, metadata := range []string{`{"name":"x"}`, `{}`, `null`, `{"symbol":"y"}`} {
		input.WriteString(strings.Replace(line, `{`, `{"collectionMetadata":`+metadata+`,`, 1) + "\n")
	}
	input.WriteString(line)
	n, ignored := 0, 0
	for c, err := range collections.ReadJSONL(strings.NewReader(input.String()), &ignored) {
		if n++; err != nil || c.Metadata != nil {
			t.Errorf("collection %d = %+v, %v, want one without metadata", n, c, err)
		}
	}
	expect.Equal(t, [2]int{n, ignored}, [2]int{5, 2}, "collections and ignored metadata")
}

func TestReadJSONLStopsAfterBreak(t *testing.T) {
	for range collections.ReadJSONL(strings.NewReader(line+"\n"+line), new(int)) {
		break
	}
}

// FuzzReadJSONL checks that accepted collections survive writing and reading, and that errors name their line.
func FuzzReadJSONL(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte("\ufeff" + line + "\r\n\n" + line))
	f.Add([]byte(strings.Replace(line, `:1,`, `:-1,`, 1)))
	f.Add([]byte(`{"collectionMetadata":[[[{}]]]}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		all, err := read(bytes.NewReader(input))
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Fatalf("error = %v, want one with a line", err)
		}
		var again bytes.Buffer
		for _, c := range all {
			data := answer(collections.Page{Items: []collections.Collection{c}}, 1, 0)["data"].([]object)
			expect.NoError(t, json.NewEncoder(&again).Encode(data[0]))
		}
		expect.NoDiff(t, expect.Value(read(&again))(t), all, "collections after writing and reading")
	})
}

func TestReadJSONLReportsFirst20ProblemsTogether(t *testing.T) {
	for refused, want := range map[int]int{3: 3, 20: 20, 50: 20} {
		var text strings.Builder
		text.WriteString(line + "\n")
		for range refused {
			text.WriteString("{\n" + line + "\n")
		}
		read := 0
		var last error
		for _, err := range collections.ReadJSONL(strings.NewReader(text.String()), new(int)) {
			if last = err; err == nil {
				read++
			}
		}
		if last == nil || strings.Count(last.Error(), "not valid JSON") != want || !strings.HasPrefix(last.Error(), "line 2: ") || read != 1 {
			t.Errorf("error of %d invalid lines = %v after %d collections, want %d problems after 1", refused, last, read, want)
		}
	}
}
