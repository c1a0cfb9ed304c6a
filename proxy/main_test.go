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
	redis.SetLogger(silent{}) // it would tell of each connection that a test breaks
	leaktest.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
