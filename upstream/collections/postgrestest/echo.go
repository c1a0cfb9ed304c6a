package postgrestest

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Echo is the address of a server that repeats each password that it is sent: by
// turns as the refusal of the login, which comes first, and as that of the first
// statement, after which it closes the connection.
func Echo(t testing.TB) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var logins atomic.Int64
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go echo(conn, &logins)
		}
	}()
	return listener.Addr().String()
}

func echo(conn net.Conn, logins *atomic.Int64) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	password, ok := login(server)
	if !ok {
		return
	}
	if logins.Add(1)%2 == 1 {
		server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "wrong: " + password})
		_ = server.Flush()
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if server.Flush() != nil || !asked(server) {
		return
	}
	server.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: "not done: " + password})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	_ = server.Flush()
}

// login asks a client for its password.
func login(server *pgproto3.Backend) (password string, ok bool) {
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return "", false
	}
	server.Send(&pgproto3.AuthenticationCleartextPassword{})
	if server.Flush() != nil || server.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return "", false
	}
	message, err := server.Receive()
	if err != nil {
		return "", false
	}
	sent, ok := message.(*pgproto3.PasswordMessage)
	if !ok {
		return "", false
	}
	return sent.Password, true
}

// asked reads a statement, and reports whether one came.
func asked(server *pgproto3.Backend) bool {
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
