package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestARunEndsInOrderWithTheReaderOfItsOutput(t *testing.T) {
	ctx, stop := untilSignalled(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("the run goes on")
	}
}
