package dialect

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestWithoutNextKeyIgnoresTextOfNextKey(t *testing.T) {
	same := func(a, b string) bool {
		return string(WithoutNextKey([]byte(a))) == string(WithoutNextKey([]byte(b)))
	}
	for name, tt := range map[string]struct {
		a, b string
		same bool
	}{
		"the documented shape":         {`{"msg":{"pagination":{"next_key":"a","total":"1"}}}`, `{"msg":{"pagination":{"next_key":"b","total":"1"}}}`, true},
		"the shape of the SDK":         {`{"pagination":{"next_key":"a","total":"1"}}`, `{"pagination":{"next_key":"bb","total":"1"}}`, true},
		"another total":                {`{"pagination":{"next_key":"a","total":"1"}}`, `{"pagination":{"next_key":"a","total":"2"}}`, false},
		"the last page":                {`{"pagination":{"next_key":"a","total":"1"}}`, `{"pagination":{"next_key":null,"total":"1"}}`, false},
		"a key outside pagination":     {`{"data":{"next_key":"a"}}`, `{"data":{"next_key":"b"}}`, false},
		"a text that looks like a key": {`{"x":"\"next_key\":\"a\""}`, `{"x":"\"next_key\":\"b\""}`, false},
	} {
		expect.Equal(t, same(tt.a, tt.b), tt.same, "%s: whether the bodies are equal", name)
	}
}
