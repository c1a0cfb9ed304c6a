package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestRunContinuesAfterLostConnection(t *testing.T) {
	ctx, stop := untilSignalled(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		t.Error("run ended, want it running")
	case <-time.After(200 * time.Millisecond):
	}
}
