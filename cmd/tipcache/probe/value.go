package probe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// firstDifference compares two JSON texts by value. It returns the first field in which they differ, in the order of the names
// of members.
func firstDifference(got, want []byte) (d Difference, differs bool) {
	return differ("", decode(got), decode(want))
}

// missing is the value of an absent member.
type missing struct{}

func decode(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return missing{}
	}
	return v
}

func differ(field string, got, want any) (d Difference, differs bool) {
	x, y := members(got), members(want)
	if isPageKey(field, got) && isPageKey(field, want) {
		return d, false
	}
	if x == nil || reflect.TypeOf(got) != reflect.TypeOf(want) {
		return Difference{Field: strings.TrimPrefix(field, "."), Got: short(got), Want: short(want)}, !areEqual(got, want)
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if a[0] == '[' { // a list: [2] comes before [10]
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if d, differs = differ(field+name, member(x, name), member(y, name)); differs {
			return d, true
		}
	}
	return d, false
}

// isPageKey reports whether v is the key of the next page. Keys are opaque: those of a tipcache differ from a node's, and from each
// other at every block.
func isPageKey(field string, v any) bool {
	key, isText := v.(string)
	return isText && key != "" && strings.HasSuffix(field, ".next_key")
}

// members returns the members of an object or the items of a list, by their suffix of a field's name. It returns nil for another
// value.
func members(v any) (all map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		all = map[string]any{}
		for name, value := range v {
			all["."+name] = value
		}
	case []any:
		all = map[string]any{}
		for i, value := range v {
			all[fmt.Sprintf("[%d]", i)] = value
		}
	}
	return all
}

func member(of map[string]any, name string) any {
	if v, ok := of[name]; ok {
		return v
	}
	return missing{}
}

// areEqual compares two values that are not both objects or both lists. Numbers may be written differently.
func areEqual(a, b any) bool {
	x, first := a.(json.Number)
	y, second := b.(json.Number)
	if !first || !second || !strings.ContainsAny(string(x+y), ".eE") {
		return a == b
	}
	v, errV := strconv.ParseFloat(string(x), 64)
	w, errW := strconv.ParseFloat(string(y), 64)
	return errV == nil && errW == nil && v == w
}

// maxShown is the maximum length of a value in a difference, in bytes.
const maxShown = 60

// short returns a value for a difference.
func short(v any) string {
	if v == (missing{}) {
		return "missing"
	}
	text, _ := json.Marshal(v) // decoded values always encode
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "…"
	}
	return string(text)
}
