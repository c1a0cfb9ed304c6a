//go:build !unix

package conn

import "syscall"

// writeAtOnce writes nothing.
func writeAtOnce(syscall.Conn, []byte) int { return 0 }
