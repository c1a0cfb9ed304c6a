//go:build !race

package lane

import (
	"syscall"
	"unsafe"
)

const flags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL

// receive reads from a socket. recvfrom takes 10% less time than read.
func receive(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_RECVFROM, fd, p) }

func send(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_SENDTO, fd, p) }

func transfer(call, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0) //nolint:gosec // needed for a system call
		if errno != syscall.EINTR {
			return result(n, errno)
		}
	}
}

// sendBoth writes two buffers in one system call.
func sendBoth(fd uintptr, head, body []byte) (int, error) {
	pieces := [2]syscall.Iovec{{Base: &head[0]}, {Base: &body[0]}}
	pieces[0].SetLen(len(head))
	pieces[1].SetLen(len(body))
	message := syscall.Msghdr{Iov: &pieces[0], Iovlen: uint64(len(pieces))}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&message)), flags) //nolint:gosec // the same
		if errno != syscall.EINTR {
			return result(n, errno)
		}
	}
}

func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
