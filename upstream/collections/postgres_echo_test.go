package collections_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

func TestWhatPostgresEchoesOfThePasswordIsNotTold(t *testing.T) {
	const password = "p4ss"
	url := "postgres://reader:" + password + "@" + postgrestest.Echo(t) + "/db?sslmode=disable"
	var log bytes.Buffer
	s := open(t, url, collections.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var told []string
	heard := func(what string) bool { return strings.Contains(strings.Join(told, "\n")+log.String(), what) }
	try := func(what string, err error) {
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		told = append(told, what+": "+err.Error())
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !(heard("wrong: ") && heard("lead: the collection store cannot be used")); time.Sleep(50 * time.Millisecond) {
		_, err := s.List(t.Context(), collections.Query{})
		try("list", err)
		try("ping", s.Ping(t.Context()))
		_, err = s.Import(t.Context(), each(some(1)))
		try("import", err)
		_, err = s.Mark(t.Context())
		try("mark", err)
		_, err = s.Owners(t.Context(), []ledger.Address{{1}}, nil)
		try("owners", err)
		try("apply", s.Apply(t.Context(), ledger.Cursor{}, ledger.Tally{}))
		try("lead", s.Lead(t.Context(), func(context.Context) error { return nil }))
		if again, err := drivers.Open(t.Context(), url, collections.Options{}); err != nil {
			try("open", err)
		} else if err = again.Close(); err != nil {
			t.Error(err)
		}
	}
	if heard(password) || !heard("wrong: ***") || !heard("not done: ***") {
		t.Errorf("told:\n%s%s", strings.Join(told, "\n"), log.String())
	}
}
