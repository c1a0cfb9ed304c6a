//go:build race

package lane

import (
	"errors"
	"syscall"
)

// receive reads by package syscall, which tells the race detector that a write happened before the read of its bytes.
func receive(fd uintptr, p []byte) (int, error) { return transfer(syscall.Read, fd, p) }

func send(fd uintptr, p []byte) (int, error) { return transfer(syscall.Write, fd, p) }

func sendBoth(fd uintptr, head, body []byte) (int, error) {
	n, err := send(fd, head)
	if err == nil && n == len(head) {
		m, _ := send(fd, body)
		n += m
	}
	return n, err
}

func transfer(do func(fd int, p []byte) (int, error), fd uintptr, p []byte) (n int, err error) {
	for {
		if n, err = do(int(fd), p); !errors.Is(err, syscall.EINTR) {
			return max(0, n), err
		}
	}
}
