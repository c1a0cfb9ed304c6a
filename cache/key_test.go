package cache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

type failingLoader struct{}

func (failingLoader) Load(context.Context, How) (*Entry, error) { return nil, errors.New("no node") }
func (failingLoader) Expected(bool) time.Duration               { return 0 }

func TestFailedKeysLeaveNoRecord(t *testing.T) {
	c := expect.Value(New(Options{}))(t)
	defer c.Close()
	sp := c.space.Load()
	sp.ahead.Next(100, nil)
	policy := Policy{StaleBlocks: 1, ErrorBlocks: 2, StaleIfError: time.Hour}
	for i := range 1_000_000 {
		if _, err := c.Get(t.Context(), Query{Key: fmt.Sprint(i), Policy: policy, Tip: 100, Ahead: true}, failingLoader{}); err == nil {
			t.Fatal("Get without a node = nil error, want one")
		}
	}
	n := 0
	sp.keys.changeAll(func(string, *record) { n++ })
	expect.Equal(t, n, 0, "records")
}
