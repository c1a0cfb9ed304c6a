//go:build !unix

package web

import "syscall"

// writeAtOnce writes nothing.
func writeAtOnce(syscall.Conn, []byte) int { return 0 }
