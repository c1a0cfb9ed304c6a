package heights_test

import (
	"testing"
	"time"
)

func TestHeadersThatComeLateAreCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		does           func(c *followed, n *fakeNode)
		punctual, late int64
	}{
		"none of those in time": {func(c *followed, _ *fakeNode) { c.blocks(20) }, 20, 0},
		"none where all are as old": {func(c *followed, n *fakeNode) {
			c.blocks(3)
			n.change(func() { n.old = 0 })
			c.blocks(3)
		}, 6, 0},
		"one that is older than others": {func(c *followed, n *fakeNode) {
			n.change(func() { n.old += interval })
			c.block()
			n.change(func() { n.old -= interval })
			c.blocks(3)
		}, 3, 1},
		"one that comes after its time": {func(c *followed, _ *fakeNode) {
			c.wait(600 * time.Millisecond)
			c.blocks(2)
		}, 1, 1},
		"one for each interval that it is overdue":   {func(c *followed, _ *fakeNode) { c.wait(2600 * time.Millisecond) }, 0, 3},
		"each once, when it has come":                {func(c *followed, _ *fakeNode) { c.wait(2600 * time.Millisecond); c.blocks(2) }, 1, 3},
		"ten at most while the chain stands still":   {func(c *followed, _ *fakeNode) { c.wait(time.Hour) }, 0, 10},
		"what has become usual is not late any more": {func(c *followed, n *fakeNode) { n.change(func() { n.old += interval }); c.blocks(20) }, 12, 8},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(990)
			n.old = 2 * interval
			following(t, func(t *testing.T, c *followed) {
				punctual, late := c.known[0].Headers()
				tt.does(c, n)
				nowPunctual, nowLate := c.known[0].Headers()
				if nowPunctual-punctual != tt.punctual || nowLate-late != tt.late {
					t.Errorf("%d in time and %d late, want %d and %d", nowPunctual-punctual, nowLate-late, tt.punctual, tt.late)
				}
			}, n)
		})
	}
}
