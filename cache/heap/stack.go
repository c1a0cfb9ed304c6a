package heap

// A stack that grows as calls get deeper is copied each time it is doubled, with all that is on it. A call
// with a large frame has it grown once, before much is on it. With every answer that a new connection
// gets, that was a tenth of the CPU.

// GrowStack gives the calling goroutine a stack of 16 KiB, which a flight needs that asks a node.
func GrowStack() { frame12(0) }

// GrowStackOfConn gives it one of 8 KiB, which an answer from memory needs. Connections are many.
func GrowStackOfConn() { frame5(0) }

//go:noinline
func frame12(never int) byte {
	if never == 0 {
		return 0
	}
	var room [12 << 10]byte
	return room[never]
}

//go:noinline
func frame5(never int) byte {
	if never == 0 {
		return 0
	}
	var room [5 << 10]byte
	return room[never]
}
