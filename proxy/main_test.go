package proxy_test

import (
	"flag"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/tipcache/tipcache/upstream/leaktest"
)

var update = flag.Bool("update", false, "write the golden files and docs/examples")

func TestMain(m *testing.M) {
	logging.Disable() // tests break connections, and each would be logged
	leaktest.Main(m)
}
