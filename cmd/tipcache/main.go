// Command tipcache is a caching proxy in front of a blockchain's nodes. Run it
// without arguments for the list of commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr}); err != nil {
		if _, logged := errors.AsType[loggedError](err); !logged {
			fmt.Fprintln(os.Stderr, "tipcache:", err)
		}
		status := 1
		if own, ok := errors.AsType[statusError](err); ok {
			status = own.status
		}
		os.Exit(status)
	}
}
