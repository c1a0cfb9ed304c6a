package metadata

import (
	"slices"
	"sync"
	"time"
)

// noContract is asked for where no contract was described yet: it shows whether
// the provider answers at all.
const noContract = "0x000000000000000000000000000000000000dead"

// A control knows when the provider last answered, and contracts whose description
// is the test of whether it is well.
type control struct {
	mu        sync.Mutex
	last      time.Time
	described [2]string // the last of them, the newest first; one may be what is tested
}

// answered notes an answer for an address, or for none, and whether that was a
// description.
func (c *control) answered(address string, described bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if described && address != c.described[0] {
		c.described = [2]string{address, c.described[0]}
	}
}

func (c *control) answeredSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.last.Before(t)
}

// contract is the one to ask for, none of those given; "" if there is no other.
func (c *control) contract(but []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, address := range append(c.described[:], noContract) {
		if address != "" && !slices.Contains(but, address) {
			return address
		}
	}
	return ""
}

// forget has another contract asked for next.
func (c *control) forget(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.described {
		if c.described[i] == address {
			c.described[i] = ""
		}
	}
}
