package main

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// chain is an execution layer's history that is made up as it is asked for: the
// same each time, and held nowhere. Its logs are spread evenly over its blocks.
// Of forty, 28 register an IP, ten mint license tokens of an IP registered
// before, one raises a dispute and one judges it. The addresses of IPs have no
// order, as on the chain, and belong to 2,000 collections, of which a few have
// most of them.
type chain struct {
	head int64 // the newest block; the first is 1
	logs int64 // of all blocks
}

const (
	chainGenesis     = 1_710_000_000 // seconds since 1970
	chainCollections = 2000
	logCycle         = 40 // logs until the kinds come again
	registrations    = 28 // of them
)

// until is how many logs the blocks up to one have, that one included.
func (c *chain) until(block int64) int64 {
	return block*(c.logs/c.head) + block*(c.logs%c.head)/c.head
}

// chainTime is the time of a block, of which one comes every 2.36 s.
func chainTime(block int64) int64 { return chainGenesis + block*236/100 }

// registration is which log registered the IP that a log is about: itself, or
// any of those before.
func registration(log int64) int64 {
	if log%logCycle < registrations {
		return log
	}
	cycle := int64(mix(uint64(log)) % uint64(log/logCycle+1))
	return cycle*logCycle + int64(mix(uint64(log)+1)%registrations)
}

// collectionOf is whose IP a log registers: the lower the number, the more it has.
func collectionOf(log int64) int64 {
	u := float64(mix(uint64(log)+2)>>11) / (1 << 53)
	return int64(chainCollections * u * u * u)
}

// Seeds keep the kinds of ids apart.
const (
	ipSeed int64 = iota << 56
	collectionSeed
	disputeSeed
	blockSeed
	otherSeed
)

// appendID appends the id of a number, so many bytes of it in hex.
func appendID(b []byte, seed, n int64, size int) []byte {
	var id [32]byte
	for i := 0; i < size; i += 8 {
		binary.BigEndian.PutUint64(id[i:], mix(uint64(seed+n)+uint64(i)<<40))
	}
	return hex.AppendEncode(b, id[:size])
}

// mix is the step of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendQuantity appends a number as JSON-RPC writes it.
func appendQuantity(b []byte, n int64) []byte {
	return strconv.AppendInt(append(b, "0x"...), n, 16)
}

// appendHeader appends what counts of a block.
func appendHeader(b []byte, block int64) []byte {
	b = appendQuantity(append(b, `{"number":"`...), block)
	b = appendID(append(b, `","hash":"0x`...), blockSeed, block, 32)
	b = appendID(append(b, `","parentHash":"0x`...), blockSeed, block-1, 32)
	b = appendQuantity(append(b, `","timestamp":"`...), chainTime(block))
	return append(b, `"}`...)
}

// appendLogs appends the array of the logs from one block to another.
func (c *chain) appendLogs(b []byte, from, to int64) []byte {
	b = append(b, '[')
	n := c.until(from - 1)
	for block := from; block <= to; block++ {
		first := n
		for end := c.until(block); n < end; n++ {
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			b = appendLog(b, n, block, n-first)
		}
	}
	return append(b, ']')
}
