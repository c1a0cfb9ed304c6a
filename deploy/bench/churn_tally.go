package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// visits counts the requests by the kind of client.
type visits struct {
	mu    sync.Mutex
	kinds map[string]*visited
	fresh int // since the last call of since
}

type visited struct {
	requests, unexpected int
	first                string // unexpected thing
}

func (t *visits) expected(kind string) { t.count(kind, "") }

func (t *visits) unexpected(kind, what string) { t.count(kind, what) }

func (t *visits) count(kind, unexpected string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh++
	v := t.kinds[kind]
	if v == nil {
		v = &visited{}
		t.kinds[kind] = v
	}
	v.requests++
	if unexpected == "" {
		return
	}
	if v.unexpected++; v.first == "" {
		v.first = unexpected
	}
}

// since counts the requests since it was called before.
func (t *visits) since() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.fresh
	t.fresh = 0
	return n
}

func (t *visits) report(r *report, length time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(t.kinds)) {
		v := t.kinds[name]
		rows = append(rows, []string{name, fmt.Sprint(v.requests), fmt.Sprint(v.unexpected), v.first})
	}
	r.table(fmt.Sprintf("Churn: %d clients at a time, for %v, a block a second", churnClients, length), []string{"clients", "requests", "unexpected", "first of them"}, rows)
}
