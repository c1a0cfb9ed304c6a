// Package leaktest fails the tests of a package that leave goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end once the tests are over: on a
// busy machine longer than the half second that goleak waits.
const patience = time.Minute

// Main runs the tests of a package, then the cleanups, and ends the process. It
// fails if goroutines are left. TestMain calls it last.
func Main(m *testing.M, cleanups ...func()) {
	code := m.Run()
	for _, cleanup := range cleanups {
		cleanup()
	}
	if code == 0 {
		if err := left(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// left waits for the goroutines of the tests, and tells which ones stay.
func left() (err error) {
	for end := time.Now().Add(patience); ; {
		if err = goleak.Find(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
