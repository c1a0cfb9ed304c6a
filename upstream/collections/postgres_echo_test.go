package collections_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPasswordEchoedByPostgresIsRedacted(t *testing.T) {
	const password = "p4ss"
	url := "postgres://reader:" + password + "@" + servePasswordEcho(t) + "/db?sslmode=disable"
	var log bytes.Buffer
	s := open(t, url, collections.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := t.Context()
	operations := map[string]func() error{
		"list":   func() error { _, err := s.List(ctx, collections.Query{}); return err },
		"import": func() error { _, err := s.Import(ctx, each(some(1))); return err },
		"mark":   func() error { _, err := s.Mark(ctx); return err },
		"owners": func() error { _, err := s.Owners(ctx, []ledger.Address{{1}}, nil); return err },
		"apply":  func() error { return s.Apply(ctx, ledger.Cursor{}, ledger.Tally{}) },
		"lead":   func() error { return s.Lead(ctx, func(context.Context) error { return nil }) },
		"open":   func() error { return opened(ctx, url) },
	}
	for name, try := range operations {
		errs := ""
		done := func() bool { // opening a store succeeds if the login is refused
			return strings.Contains(errs, "not done: ***") && (name == "open" || strings.Contains(errs, "wrong: ***"))
		}
		for n := 0; n < 100 && !done(); n++ {
			if err := try(); err != nil {
				errs += err.Error() + "\n"
			}
		}
		if strings.Contains(errs, password) || !done() {
			t.Errorf("errors of %s, want both refusals without the password:\n%s", name, errs)
		}
	}
	if strings.Contains(log.String(), password) {
		t.Errorf("log contains the password:\n%s", log.String())
	}
}

func opened(ctx context.Context, url string) error {
	again, err := drivers.Open(ctx, url, collections.Options{})
	if err != nil {
		return err
	}
	return again.Close()
}

// servePasswordEcho starts a PostgreSQL server that repeats each password it receives, and returns its address. It refuses
// the first login, and later at random the login or the first statement after it. Then it closes the connection.
func servePasswordEcho(t *testing.T) (address string) {
	listener := expect.Value(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		isFirst := true
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go echoPassword(conn, isFirst || rand.IntN(2) == 0) //nolint:gosec // not a secret
			isFirst = false
		}
	}()
	return listener.Addr().String()
}

func echoPassword(conn net.Conn, refuseLogin bool) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	password, ok := readPassword(server)
	switch {
	case !ok:
		return
	case refuseLogin:
		server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "wrong: " + password})
		_ = server.Flush()
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if server.Flush() != nil || !readStatement(server) {
		return
	}
	server.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: "not done: " + password})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	_ = server.Flush()
}

func readPassword(server *pgproto3.Backend) (password string, ok bool) {
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return "", false
	}
	server.Send(&pgproto3.AuthenticationCleartextPassword{})
	if server.Flush() != nil || server.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return "", false
	}
	message, _ := server.Receive()
	sent, ok := message.(*pgproto3.PasswordMessage)
	if !ok {
		return "", false
	}
	return sent.Password, true
}

func readStatement(server *pgproto3.Backend) bool {
	for {
		message, err := server.Receive()
		if err != nil {
			return false
		}
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
			return true
		}
	}
}
