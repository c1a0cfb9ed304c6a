package sqlstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestParametersOfPostgresURLWin(t *testing.T) {
	for url, want := range map[string][2]int64{
		"postgres://h/db":                                    {4, int64(2 * time.Second)},
		"postgres://[::1]:5432,[::2]:5432/db":                {4, int64(2 * time.Second)}, // net/url refuses it
		"postgres://h/db?pool_max_conns=2&connect_timeout=7": {2, int64(7 * time.Second)},
	} {
		config := expect.Value(pgxpool.ParseConfig(url))(t)
		setDefaults(config, collections.Options{Settings: collections.Settings{Timeout: 2 * time.Second}, Connections: 4})
		got := [2]int64{int64(config.MaxConns), int64(config.ConnConfig.ConnectTimeout)}
		expect.NoDiff(t, got, want, "connections and timeout with %s", url)
	}
}
