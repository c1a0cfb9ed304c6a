package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
)

// RelayCommand is the hidden first argument that makes this program a relay.
const RelayCommand = "relay"

// Relay starts a process that passes connections on to a server, and returns its
// address. SIGSTOP of it is to clients what that of the server's own process is: the
// kernel still accepts connections, what is sent waits, and SIGCONT has it go on.
func (r *Rig) Relay(ctx context.Context, server string) (p *Process, addr string) {
	addr = FreeAddr()
	p = r.Start(ctx, RelayCommand+"-"+Port(addr), nil, Must(os.Executable()), RelayCommand, addr, server)
	p.Ready(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return p, addr
}

// RunRelay relays until it is killed. Its arguments are its own address and the server's.
func RunRelay(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%w: %s ADDRESS SERVER", ErrUsage, RelayCommand)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go pass(ctx, client, args[1])
	}
}

// pass has what either side sends reach the other, until either ends.
func pass(ctx context.Context, client net.Conn, addr string) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	_, _ = io.Copy(server, client)
}
