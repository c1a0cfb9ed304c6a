package heap

// A goroutine's stack that grows as calls get deeper is copied, with all that is on it, each time it is
// doubled. A call with a frame of some size has it grown once, before much is on it.

// GrowStack gives the goroutine that calls it a stack of 16 KiB, which is what a flight needs that asks a
// node.
func GrowStack() { frame16(0) }

// GrowStackOfConn gives it one of 8 KiB: the most that is kept for a connection, of which there are many.
func GrowStackOfConn() { frame8(0) }

//go:noinline
func frame16(never int) byte {
	if never == 0 {
		return 0
	}
	var room [12 << 10]byte
	return room[never]
}

//go:noinline
func frame8(never int) byte {
	if never == 0 {
		return 0
	}
	var room [5 << 10]byte
	return room[never]
}
