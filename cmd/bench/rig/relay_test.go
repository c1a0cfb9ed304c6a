package rig_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rig.RelayCommand {
		_ = rig.RunRelay(context.Background(), os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

func TestWhatIsSentToAServerThatIsStoppedIsAnsweredOnceItGoesOn(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer s.Close()
	r, err := rig.New(t.Context(), rig.Options{Bin: "unused"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, addr := r.Relay(t.Context(), rig.Host(s.URL))
	p.Signal(syscall.SIGSTOP)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Error(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it was answered: %v", err)
	}
	p.Signal(syscall.SIGCONT)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if text, err := io.ReadAll(conn); err != nil || len(text) == 0 {
		t.Errorf("%q, %v", text, err)
	}
}
