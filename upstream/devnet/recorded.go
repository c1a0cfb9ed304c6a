package devnet

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// recordedFile has what is the same at every height, in the words of a real node.
//
//go:embed recorded.json
var recordedFile []byte

var recorded = sync.OnceValue(func() (r struct {
	Answers       map[string]json.RawMessage // messages by the pattern of the path
	History       json.RawMessage            // the historical info of the {height}
	Modules       []json.RawMessage          // of the node's program
	Unbondings    []record                   // by delegator and validator
	Redelegations []record                   // by both validators
}) {
	if err := json.Unmarshal(recordedFile, &r); err != nil {
		panic("devnet: recorded.json: " + err.Error())
	}
	return r
})

// A record is an item of a list and the addresses that it is found by.
type record struct {
	Delegator, Validator address
	To                   address // of a redelegation, whose validator is the source
	Item                 json.RawMessage
}

func (q *query) item(r record) { q.text(string(r.Item)) }

// where is a copy of a list with the items for which so is true.
func where[T any](all []T, so func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !so(one) })
}

// found are the records with a delegator and a validator, nil for any.
func (q *query) found(all []record, delegator, validator []byte) []record {
	return where(all, func(r record) bool {
		return q.height >= singularity && (delegator == nil || bytes.Equal(r.Delegator[:], delegator)) && (validator == nil || bytes.Equal(r.Validator[:], validator))
	})
}

// constant answers with the same message at every height.
func constant(message json.RawMessage) func(*query) error {
	return func(q *query) error {
		q.text(string(message))
		return nil
	}
}

// moduleVersions answers with one version or all.
func moduleVersions(q *query) error {
	name := q.request.ModuleName
	found := where(recorded().Modules, func(m json.RawMessage) bool { return name == "" || strings.HasPrefix(string(m), `{"name":"`+name+`"`) })
	if len(found) == 0 {
		return fmt.Errorf("x/upgrade: QueryModuleVersions module %s not found: module version not found", name)
	}
	return q.object("module_versions", func() { list(q, found, "", func(m json.RawMessage) { q.text(string(m)) }) })
}

// validatorUnbondings answers with what is leaving a validator.
func validatorUnbondings(q *query) error {
	return listPage(q, "unbonding_responses", "null", q.found(recorded().Unbondings, nil, q.operator), func(r record) string { return r.Delegator.key() }, nil, q.item)
}

// delegatorUnbondings answers with what a delegator takes out.
func delegatorUnbondings(q *query) error {
	return listPage(q, "unbonding_responses", "null", q.found(recorded().Unbondings, q.delegator, nil), func(r record) string { return r.Validator.key() }, nil, q.item)
}

// unbondingSingle answers with what is leaving one delegation.
func unbondingSingle(q *query) error {
	found := q.found(recorded().Unbondings, q.delegator, q.operator)
	if len(found) == 0 {
		return q.noneFor("unbonding delegation")
	}
	return q.object("unbond", func() { q.item(found[0]) })
}

// redelegations answers with the redelegations of a delegator. Between a
// source and a destination there is one or a refusal, and no pagination; a
// source or a destination alone filters nothing.
func redelegations(q *query) error {
	from, err := optionalHex(q.request.SrcValidatorAddr)
	if err != nil {
		return err
	}
	to, err := optionalHex(q.request.DstValidatorAddr)
	if err != nil {
		return err
	}
	if from == nil || to == nil {
		moves := q.found(recorded().Redelegations, q.delegator, nil)
		return listPage(q, "redelegation_responses", "[]", moves, func(r record) string { return r.Validator.key() + r.To.key() }, nil, q.item)
	}
	moves := where(q.found(recorded().Redelegations, q.delegator, from), func(r record) bool { return bytes.Equal(r.To[:], to) })
	if len(moves) == 0 {
		return fmt.Errorf("rpc error: code = Internal desc = rpc error: code = NotFound desc = redelegation not found for delegator address %s from validator address %s",
			cosmos.Bech32(accountPrefix, q.delegator), cosmos.Bech32(validatorPrefix, from))
	}
	return q.object("redelegation_responses", func() { list(q, moves, "", q.item) })
}

// optionalHex parses an address that may be left out.
func optionalHex(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	return parseHex(s)
}
