package sqlstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestParametersOfPostgresURLWin(t *testing.T) {
	for query, want := range map[string][2]int64{"": {4, int64(2 * time.Second)}, "?pool_max_conns=2&connect_timeout=7": {2, int64(7 * time.Second)}} {
		config := expect.Value(pgxpool.ParseConfig("postgres://h/db" + query))(t)
		setDefaults(config, collections.Options{Connections: 4, Timeout: 2 * time.Second})
		got := [2]int64{int64(config.MaxConns), int64(config.ConnConfig.ConnectTimeout)}
		expect.NoDiff(t, got, want, "connections and timeout with %q", query)
	}
}
