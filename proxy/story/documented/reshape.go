package documented

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// A reshape edits msg into its documented shape. It returns the next page key if the shape has no member for it.
type reshape func(e *splicer, msg gjson.Result) (nextKey string, err error)

// normalized returns a JSON text normalized to the schema.
func (s *Schema) normalized(src string) ([]byte, error) {
	e := &splicer{src: src}
	_, err := s.normalize(e, blanks(src, 0))
	return e.bytes(), err
}

// reshapePeriodDelegations replaces msg by the array of its period delegations. The members next to a period delegation,
// such as its balance, become members of it.
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
	flat := []byte(inner.Raw[:len(inner.Raw)-1])
	empty := strings.TrimSpace(inner.Raw[1:len(flat)]) == ""
	item.ForEach(func(key, value gjson.Result) bool {
		if key.Str == "period_delegation" {
			return true
		}
		if !empty {
			flat = append(flat, ',')
		}
		flat, empty = append(append(append(flat, key.Raw...), ':'), value.Raw...), false
		return true
	})
	text, err := periodDelegationSchema.normalized(string(append(flat, '}')))
	return append(out, text...), err
}

// reshapeRewards makes an entry with one {denom, amount} for each denomination of a validator's rewards, and an entry with an
// amount of 0 for a validator without rewards. It adds a missing total as null, which the node sends if there are no rewards.
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

// eachItem renders a list of objects item by item.
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
