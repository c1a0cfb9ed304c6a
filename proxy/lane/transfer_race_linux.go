//go:build race

package lane

import (
	"errors"
	"syscall"
)

// transfer reads or writes by package syscall, from which the race detector learns
// that what was done before a write happened before the read of it.
func transfer(call, fd uintptr, p []byte) (n int, err error) {
	do := syscall.Read
	if call == syscall.SYS_WRITE {
		do = syscall.Write
	}
	for {
		if n, err = do(int(fd), p); !errors.Is(err, syscall.EINTR) {
			return max(0, n), err
		}
	}
}
