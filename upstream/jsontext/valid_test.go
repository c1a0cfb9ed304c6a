package jsontext_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

var texts = []string{
	`{"code":200,"msg":{"a":[1,-0,1.5,-2e+10,0.1E-3,true,false,null,"","\u00e9\\\"\/\b\f\n\r\t"],"b":{},"c":[]},"error":""}`,
	" { \"a\" : {\"msg\":1} , \"msg\":[ {} ] ,\"a\":2 , \"\": null}\n", `{"msg" : "1" }`, `{"b":{"a":1}}`, ` { }`, `{"a":1}}`, `{"a":1]`,
	" [ 1 , { \"a\" : [ ] } ] \r\n\t", `"a long string of more than eight bytes"`, "\"\xff\x80\"", `0`, `-1`, `null`,
	``, ` `, `{`, `[`, `"`, `}`, `]`, `,`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{1:1}`, `[1,]`, `[,]`, `[1 2]`, `[1]]`, `{"a":1]`, `[1}`, `1 2`,
	`01`, `-`, `1.`, `.1`, `1e`, `1e+`, `1d5`, `+1`, `truE`, `tru`, `nul`, `falsey`, `"\x"`, `"\u12g4"`, `"\u12"`, `"\`, `"a`, "\"\x00\"", "\"12345678\x1f\"", "\"a\nb\"",
	`{"a":1 "b":2}`, `{"a" 1}`, `{"a":1,"b"`, `{"a":1,`, `{"a":`, `[1,`, "\xef\xbb\xbf1", "[1]\x00",
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), strings.Repeat(`[{"a":`, 5_001), strings.Repeat("[", 1<<20),
}

// compare compares Valid and Members with encoding/json and gjson.
func compare(t *testing.T, text string) {
	t.Helper()
	if got, want := jsontext.Valid([]byte(text)), json.Valid([]byte(text)); got != want {
		t.Fatalf("Valid(%.200q) = %t, want %t as by encoding/json", text, got, want)
	}
	members, ok := jsontext.Members([]byte(text), "msg", "a", "")
	whole := gjson.Parse(text)
	if want := json.Valid([]byte(text)) && whole.IsObject(); ok != want {
		t.Fatalf("Members(%.200q) = %t, want %t", text, ok, want)
	} else if !want {
		return
	}
	for i, name := range []string{"msg", "a", ""} {
		var want *gjson.Result // the first member with exactly this name
		whole.ForEach(func(key, value gjson.Result) bool {
			if key.Raw == `"`+name+`"` {
				want = &value
			}
			return want == nil
		})
		if got := members[i]; (got == nil) != (want == nil) || got != nil && string(got) != want.Raw {
			t.Fatalf("member %q of %.200q = %q, want %v", name, text, got, want)
		}
	}
}

func TestValidAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		compare(t, text)
	}
}

// The texts have one or two bytes replaced, removed or inserted.
func TestValidAgreesWithEncodingJSONOnChangedTexts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	const odd = "{}[],:\"\\/ \t\n\r\x00\x1f\x7f\x80\xff-+.eE0123456789tfnu"
	for range 200_000 {
		text := []byte(texts[random.IntN(36)])
		for range 1 + random.IntN(2) {
			if len(text) == 0 {
				break
			}
			at := random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text[at] = odd[random.IntN(len(odd))]
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				text = append(text[:at], append([]byte{odd[random.IntN(len(odd))]}, text[at:]...)...)
			}
		}
		compare(t, string(text))
	}
}

func FuzzValidAgreesWithEncodingJSON(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(compare)
}
