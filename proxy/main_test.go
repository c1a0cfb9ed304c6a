package proxy_test

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream/leaktest"
)

var update = flag.Bool("update", false, "write the golden files and docs/examples")

func TestMain(m *testing.M) {
	redis.SetLogger(discardLogger{}) // tests break connections, and each would be logged
	leaktest.Main(m)
}

type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}
