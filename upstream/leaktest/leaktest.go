// Package leaktest fails the tests of a package that leave goroutines behind.
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end once the tests are over: on a
// busy machine longer than the half second that goleak waits.
const patience = time.Minute

// atOnce is how many tests marked parallel run at once, unless -parallel is given:
// they wait for timeouts and servers, and compute little.
const atOnce = "8"

// Main runs the tests of a package, then the cleanups, and ends the process. It
// fails if goroutines are left. TestMain calls it last.
func Main(m *testing.M, cleanups ...func()) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", atOnce)
	}
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
