package config

import (
	"fmt"
	"reflect"
	"time"
)

// A removedKey was a setting in the version before this one, and is a constant now.
// For one version it may be set to that constant.
type removedKey struct {
	path     string
	constant any    // the value in force
	advice   string // what to do in place of another value
}

func removedKeys() []removedKey {
	return []removedKey{
		{"chain.hedge", time.Duration(0), "another node is asked once one fails or exceeds chain.timeout, so lower that if it is too long"},
		{"http.allow_no_cache", false, "have clients that need a certain block name it in X-Min-Block-Height, or X-Min-Evm-Block for collections"},
	}
}

// A removedSetting holds what the sources say of a removed key.
type removedSetting struct {
	removedKey
	field reflect.Value
}

// removedSettings are the removed keys by path, each at its constant.
func removedSettings() map[string]removedSetting {
	all := map[string]removedSetting{}
	for _, k := range removedKeys() {
		field := reflect.New(reflect.TypeOf(k.constant)).Elem()
		field.Set(reflect.ValueOf(k.constant))
		all[k.path] = removedSetting{k, field}
	}
	return all
}

// judge returns a warning for a removed key that is set to its constant, and for another
// value, or one that wrong says cannot be read, a problem.
func (s removedSetting) judge(wrong error) (warning, problem error) {
	always := fmt.Sprintf("no longer a setting, always %s: ", Key{Default: s.constant}.DefaultText())
	if wrong == nil && s.field.Interface() == s.constant {
		return Problem{Key: s.path, Text: always + "delete it, the next version refuses it"}, nil
	}
	return nil, Problem{Key: s.path, Text: always + "delete it; " + s.advice}
}
