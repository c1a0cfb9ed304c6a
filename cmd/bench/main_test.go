package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSIGPIPEDoesNotEndRun(t *testing.T) {
	ctx, stop := untilSignalled(t.Context())
	defer stop()
	expect.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGPIPE))
	select {
	case <-ctx.Done():
		t.Error("context ended after SIGPIPE, want it to continue")
	case <-time.After(200 * time.Millisecond):
	}
}
