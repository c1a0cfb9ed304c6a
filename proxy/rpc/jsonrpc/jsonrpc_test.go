package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// readPlain returns the same call as encoding/json, or false.
func FuzzCallsAreParsedAsByEncodingJSON(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"status","params":{"a":[1,"x"]}}`, `{"id":"x","method":"m"}`, `{"ID":1,"method":"m","params":null}`, `{"id":1.0,"method":"m"}`,
		`{"id":1,"id":2}`, `{"id":-1}`, `{"id":007}`, `{"id":"<"}`, `{"id":"\u0041"}`, `{"id":1e3}`, `{"id":12345678901234567890}`, `{"params":3,"id":1}`, `{"method":3}`, ` {} `, `{"x":1}`, `[]`, `null`, `"id"`, "",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, _, ok := readPlain([]byte(body))
		if !ok {
			return
		}
		want := expect.Value(ReadFirst([]byte(body)))(t)
		expect.NoDiff(t, got, want, "call of %s", body)
	})
}

// Any other id in the place that FindID returns changes only the call's id.
func FuzzReplaceIDChangesOnlyTheID(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"status","params":{"id":2}}`, `{"params":{"id":2},"id":1,"method":"status"}`, `{"params":["\"id\":3"],"id":1,"method":"status"}`,
		` { "id" : "x" } `, `{"id":1 ,"method":"m"}`, `{"id":1.5}`, `{"id":1e3}`, `{"id":"a\u0062"}`, `{"\u0069d":1,"id":2}`, `{"ID":1,"id":2}`, `{"id":1,"id":2}`, `{"id":null}`, `{"id":9007199254740993}`,
		`[{"id":1}]`, `{"id":1}{"id":2}`, `{"method":"id","id":007}`, `{"id"`, `"id"`, ``, ` `,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		from, to, ok := FindID(body)
		if !ok || !FindsID([]byte(body)) {
			return
		}
		want, err := Read([]byte(body))
		if err != nil || string(want.ID) != body[from:to] {
			t.Fatalf("FindID(%s) = %s, want the call's id %s (%v)", body, body[from:to], want.ID, err)
		}
		for _, id := range []string{`"x9"`, `42`} {
			want.ID = json.RawMessage(id)
			got := expect.Value(Read([]byte(body[:from] + id + body[to:])))(t)
			expect.NoDiff(t, got, want, "call of %s with id %s", body, id)
		}
	})
}

func TestFindID(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":1}`: "1", ` {"id":1}`: "1", `{ "id" : "x" }`: `"x"`, `{"method":"m","id":23,"params":{"id":4}}`: "23",
		`["id",1]`: "", `{"id"}`: "", `{"id"`: "", `{"id":007}`: "", `{"id":null}`: "", `{}`: "",
	} {
		from, to, ok := FindID(body)
		if got := body[from:to]; got != want || ok != (want != "") {
			t.Errorf("FindID(%s) = %q, %t; want %q", body, got, ok, want)
		}
	}
}

func TestCommonCallsAreParsedByReadPlain(t *testing.T) {
	for _, body := range []string{`{"jsonrpc":"2.0","id":123456789012,"method":"abci_query","params":{"path":"/x"}}`, `{"id":"a","method":"status","params":[]}`} {
		_, _, ok := readPlain([]byte(body))
		expect.Equal(t, ok, true, "readPlain(%s)", body)
	}
}

// readPlain does not parse the second body.
func TestNumericIDsAreReturnedUnchanged(t *testing.T) {
	for _, id := range []string{"0", "-1", "-0", "1.5", "1.0", "9007199254740993", "9223372036854775807", "9223372036854775808", "1e30", "1E+2", "123456789012345678901234567890"} {
		for _, body := range []string{`{"id":` + id + `,"method":"status"}`, `{"ID":` + id + `,"method":"status","more":1}`} {
			for name, read := range map[string]func([]byte) (Call, error){
				"Read": Read, "ReadFirst": ReadFirst,
				"Each": func(body []byte) (c Call, err error) {
					err = Each([]byte("["+string(body)+"]"), func(one Call) bool { c = one; return true })
					return c, err
				},
			} {
				if c, err := read([]byte(body)); err != nil || string(c.ID) != id {
					t.Errorf("id of %s(%s) = %s, %v; want %s", name, body, c.ID, err, id)
				}
			}
		}
	}
}

func TestLongIDIsRefusedWithoutDecodingIt(t *testing.T) {
	for name, id := range map[string]string{
		"list": "[" + strings.Repeat("{},", 1<<18) + "{}]", "text": `"` + strings.Repeat("<", 1<<20) + `"`,
	} {
		body := []byte(`{"id":` + id + `,"method":"status"}`)
		if n := testing.AllocsPerRun(1, func() { _, _ = Read(body) }); n > 100 {
			t.Errorf("allocations for a long %s = %v, want at most 100", name, n)
		}
		if _, err := Read(body); err == nil || len(err.Error()) > 500 {
			t.Errorf("error for a long %s = %.100v, want a short one", name, err)
		}
	}
	_, err := Read([]byte(`{"id":[1,{"a":"` + strings.Repeat("x", 1000) + `"}],"method":"status"}`))
	if err == nil || !strings.HasPrefix(err.Error(), "json-rpc ID ([1 map[a:xxx") || !strings.HasSuffix(err.Error(), "xx) is of unknown type ([]interface {})") {
		t.Errorf("error of an id that is a list = %v, want the node's", err)
	}
}

func TestAnswerHasTheIDOfItsCall(t *testing.T) {
	for want, id := range map[string]json.RawMessage{`x{"jsonrpc":"2.0","id":"a","result":7}`: json.RawMessage(`"a"`), `x{"jsonrpc":"2.0","result":7}`: nil} {
		expect.Equal(t, string(AppendAnswer([]byte("x"), id, []byte(`"result":7`))), want, "AppendAnswer with id %s", id)
		if id != nil {
			expect.Equal(t, AnswerSize(id, []byte(`"result":7`)), len(want)-1, "AnswerSize with id %s", id)
		}
	}
}
