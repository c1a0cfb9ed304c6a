package documented

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// A reshape edits msg into its documented shape. It returns the page key of
// the next page where the shape has no place for it.
type reshape func(e *splicer, msg gjson.Result) (nextKey string, err error)

var errGrows = errors.New("the documented shape is many times as long")

// longest bounds the shape of a text of so many bytes: four times as much, and room
// for the few that are short. An answer that grows by more is made of nothing but
// what it leaves out.
func longest(source int) int { return 4*source + 16<<10 }

// A Shaped answer is one in its documented shape.
type Shaped struct {
	Body    []byte
	NextKey string // the page key of the next page where the shape has no place for it
	Page    int    // the index in Body at which the object begins that has the next page key; 0: it is not known
}

// Shape makes a documented answer of the raw one, which is valid JSON and
// does not change any more. With no schema of msg there is
// no documented shape, and the node's stays.
func Shape(raw []byte, want *Schema) (shaped Shaped, err error) {
	if want == nil {
		return Shaped{Body: raw}, nil
	}
	src := unsafe.String(unsafe.SliceData(raw), len(raw)) //nolint:gosec // which is only read
	at := find(src, "msg")
	if at < 0 || src[at] != '{' {
		return shaped, fmt.Errorf("msg: want an object, have %.40s", gjson.Get(src, "msg").Raw)
	}
	e := &splicer{src: src, out: make([]byte, 0, len(src)+512)}
	if want.edit != nil {
		shaped.NextKey, err = want.edit(e, gjson.Get(src, "msg"))
	} else {
		_, err = want.normalize(e, at)
	}
	if err != nil {
		return shaped, fmt.Errorf("msg: %w", err)
	}
	if e.grows {
		return shaped, errGrows
	}
	shaped.Body, shaped.Page = e.bytes(), e.page
	return shaped, nil
}

// normalized is a text of its own, normalized.
func (s *Schema) normalized(src string) ([]byte, error) {
	e := &splicer{src: src}
	_, err := s.normalize(e, blanks(src, 0))
	return e.bytes(), err
}

// reshapePeriodDelegations makes msg the array of the period delegations. What
// stands beside each of them, its balance, becomes one more member of it.
func reshapePeriodDelegations(e *splicer, msg gjson.Result) (string, error) {
	items, err := eachItem(msg.Get("period_delegation_responses"), flattenPeriodDelegation)
	if err != nil {
		return "", fmt.Errorf("period_delegation_responses: %w", err)
	}
	e.replace(msg.Index, msg.Index+len(msg.Raw), items)
	return msg.Get("pagination.next_key").Str, nil
}

func flattenPeriodDelegation(out []byte, item gjson.Result) ([]byte, error) {
	inner := item.Get("period_delegation")
	if !inner.IsObject() {
		return out, fmt.Errorf("period_delegation: want an object, have %.40s", inner.Raw)
	}
	flat := splicer{src: inner.Raw}
	end, comma := len(inner.Raw)-1, ","
	if empty := strings.TrimSpace(inner.Raw[1:end]) == ""; empty {
		comma = ""
	}
	item.ForEach(func(key, value gjson.Result) bool {
		if key.Str != "period_delegation" {
			flat.replace(end, end, comma+key.Raw+":"+value.Raw)
			comma = ","
		}
		return true
	})
	text, err := periodDelegationSchema.normalized(string(flat.bytes()))
	return append(out, text...), err
}

// reshapeRewards gives every reward one {denom, amount}: a validator with
// several denoms one entry for each, and one that gave nothing an empty one. A
// total that is missing is null, as one of no rewards is.
func reshapeRewards(e *splicer, msg gjson.Result) (string, error) {
	rewards := msg.Get("rewards")
	items, err := eachItem(rewards, splitReward)
	if err != nil {
		return "", fmt.Errorf("rewards: %w", err)
	}
	start, end := msg.Index+1, msg.Index+len(msg.Raw)-1
	if rewards.Exists() {
		e.replace(rewards.Index, rewards.Index+len(rewards.Raw), items)
	} else {
		if strings.TrimSpace(msg.Raw[1:len(msg.Raw)-1]) != "" {
			items += ","
		}
		e.replace(start, start, `"rewards":`+items)
	}
	if !msg.Get("total").Exists() {
		e.replace(end, end, `,"total":null`)
	}
	return "", nil
}

func splitReward(out []byte, item gjson.Result) ([]byte, error) {
	coins := item.Get("reward")
	if !coins.IsArray() {
		text, err := rewardSchema.normalized(item.Raw)
		return append(out, text...), err
	}
	entries := coins.Array()
	if len(entries) == 0 {
		entries = []gjson.Result{{Raw: "null"}}
	}
	from, most := coins.Index-item.Index, len(out)+longest(len(item.Raw))
	for i, coin := range entries {
		if len(out) > most {
			return out, errGrows
		}
		if i > 0 {
			out = append(out, ',')
		}
		text, err := rewardSchema.normalized(item.Raw[:from] + coin.Raw + item.Raw[from+len(coins.Raw):])
		if err != nil {
			return out, err
		}
		out = append(out, text...)
	}
	return out, nil
}

// eachItem renders a list of objects anew, item by item.
func eachItem(list gjson.Result, render func(out []byte, item gjson.Result) ([]byte, error)) (string, error) {
	if list.Type == gjson.Null { // or missing
		return "[]", nil
	}
	if !list.IsArray() {
		return "", fmt.Errorf("want a list, have %.40s", list.Raw)
	}
	out := append(make([]byte, 0, len(list.Raw)+2), '[')
	var err error
	list.ForEach(func(_, item gjson.Result) bool {
		if !item.IsObject() {
			err = fmt.Errorf("want an object, have %.40s", item.Raw)
			return false
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if out, err = render(out, item); err == nil && len(out) > longest(len(list.Raw)) {
			err = errGrows
		}
		return err == nil
	})
	return string(append(out, ']')), err
}

// A splicer edits a text in place of re-encoding it: whatever is not replaced
// leaves byte for byte as it came. Edits are made from left to right.
type splicer struct {
	src  string
	out  []byte
	done int // how much of src is in out, or was replaced
	page int // of a Shaped

	grows bool // out became longer than the result may be, and is not added to any more
}

// replace puts text where src[from:to] was; from == to inserts.
func (s *splicer) replace(from, to int, text string) {
	if len(s.out) > longest(len(s.src)) {
		s.grows = true
		return
	}
	s.out = append(append(s.out, s.src[s.done:from]...), text...)
	s.done = to
}

// moved is where what is at an index of src, and follows all edits so far, is in the end.
func (s *splicer) moved(at int) int { return len(s.out) + at - s.done }

// bytes ends the editing.
func (s *splicer) bytes() []byte {
	return append(s.out, s.src[s.done:]...)
}
