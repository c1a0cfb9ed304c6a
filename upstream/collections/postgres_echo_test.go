package collections_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

func TestPasswordEchoedByPostgresIsHidden(t *testing.T) {
	const password = "p4ss"
	url := "postgres://reader:" + password + "@" + postgrestest.Echo(t) + "/db?sslmode=disable"
	var log bytes.Buffer
	s := open(t, url, collections.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := t.Context()
	operations := map[string]func() error{
		"list":   func() error { _, err := s.List(ctx, collections.Query{}); return err },
		"ping":   func() error { return s.Ping(ctx) },
		"import": func() error { _, err := s.Import(ctx, each(some(1))); return err },
		"mark":   func() error { _, err := s.Mark(ctx); return err },
		"owners": func() error { _, err := s.Owners(ctx, []ledger.Address{{1}}, nil); return err },
		"apply":  func() error { return s.Apply(ctx, ledger.Cursor{}, ledger.Tally{}) },
		"lead":   func() error { return s.Lead(ctx, func(context.Context) error { return nil }) },
		"open":   func() error { return opened(ctx, url) },
	}
	for name, try := range operations {
		told := ""
		done := func() bool { // a refused login is no error of a store that is opened
			return strings.Contains(told, "not done: ***") && (name == "open" || strings.Contains(told, "wrong: ***"))
		}
		for n := 0; n < 100 && !done(); n++ {
			if err := try(); err != nil {
				told += err.Error() + "\n"
			}
			_ = s.Ping(ctx) // which moves the turns of the server on
		}
		if strings.Contains(told, password) || !done() {
			t.Errorf("%s told:\n%s", name, told)
		}
	}
	if strings.Contains(log.String(), password) {
		t.Errorf("log:\n%s", log.String())
	}
}

func opened(ctx context.Context, url string) error {
	again, err := drivers.Open(ctx, url, collections.Options{})
	if err != nil {
		return err
	}
	return again.Close()
}
