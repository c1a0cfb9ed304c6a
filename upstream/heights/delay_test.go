package heights_test

import (
	"testing"
	"time"
)

func TestLateHeadersAreCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		act            func(c *followed, n *fakeNode)
		punctual, late int64
	}{
		"all in time": {func(c *followed, _ *fakeNode) { c.blocks(20) }, 20, 0},
		"younger than usual": {func(c *followed, n *fakeNode) {
			c.blocks(3)
			n.change(func() { n.old = 0 })
			c.blocks(3)
		}, 6, 0},
		"one is older": {func(c *followed, n *fakeNode) {
			n.change(func() { n.old += interval })
			c.block()
			n.change(func() { n.old -= interval })
			c.blocks(3)
		}, 3, 1},
		"one is overdue": {func(c *followed, _ *fakeNode) {
			c.wait(600 * time.Millisecond)
			c.blocks(2)
		}, 1, 1},
		"overdue by three intervals":   {func(c *followed, _ *fakeNode) { c.wait(2600 * time.Millisecond) }, 0, 3},
		"overdue headers arrive":       {func(c *followed, _ *fakeNode) { c.wait(2600 * time.Millisecond); c.blocks(2) }, 1, 3},
		"the chain stands still":       {func(c *followed, _ *fakeNode) { c.wait(time.Hour) }, 0, 10},
		"a longer delay becomes usual": {func(c *followed, n *fakeNode) { n.change(func() { n.old += interval }); c.blocks(20) }, 12, 8},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(990)
			n.old = 2 * interval
			runChain(t, func(t *testing.T, c *followed) {
				punctual, late := c.known[0].Headers()
				tt.act(c, n)
				nowPunctual, nowLate := c.known[0].Headers()
				if nowPunctual-punctual != tt.punctual || nowLate-late != tt.late {
					t.Errorf("headers in time = %d, late = %d; want %d, %d", nowPunctual-punctual, nowLate-late, tt.punctual, tt.late)
				}
			}, n)
		})
	}
}
