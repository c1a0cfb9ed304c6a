// Package entered notes which functions run, and in which order.
package entered

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
)

var (
	mu     sync.Mutex
	noting bool
	order  []string            // goroutines, in the order of their first functions
	walks  map[string][]string // of each goroutine, the functions in the order of their first calls
)

// Function notes that function is entered. Each function of a program built for .ci/journeys begins with a call of it.
func Function(function string) {
	mu.Lock()
	defer mu.Unlock()
	if !noting {
		return
	}
	id := goroutine()
	if walks[id] == nil {
		order = append(order, id)
	}
	if !slices.Contains(walks[id], function) {
		walks[id] = append(walks[id], function)
	}
}

// During returns the functions that run during do, by goroutine. A goroutine has each function once, in the order of the first
// calls.
func During(do func()) (goroutines [][]string) {
	mu.Lock()
	noting, order, walks = true, nil, map[string][]string{}
	mu.Unlock()
	do()
	mu.Lock()
	defer mu.Unlock()
	noting = false
	for _, id := range order {
		goroutines = append(goroutines, walks[id])
	}
	return goroutines
}

// goroutine returns the first line of the caller's stack, which has the goroutine's number.
func goroutine() string {
	var stack [32]byte
	line, _, _ := bytes.Cut(stack[:runtime.Stack(stack[:], false)], []byte(" ["))
	return string(line)
}
