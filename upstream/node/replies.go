package node

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// usualReply is the memory in bytes that a gRPC call reserves for its response, unless the method is known to have
// longer responses.
const usualReply = 256 << 10

// writeReply is the size in bytes that a response to a call that is sent once may always have: it cannot be called again with more memory.
const writeReply = 1 << 20

// invoke calls a method within reserved memory. grpc-go reveals the size of a message only when it refuses it. So if a
// response is longer than recent ones, the method is called again with more memory, if it may be sent more than once.
func (c *grpcClient) invoke(ctx context.Context, r *Invocation, once bool, options ...grpc.CallOption) (reply []byte, err error) {
	held := c.memory.Open("", true)
	defer held.Close()
	limit := c.replies.size(r.Method)
	if once {
		limit = max(limit, writeReply, 2*int64(len(r.Message))) // a decoded transaction is about as long as an encoded one
	}
	limit = min(limit, c.maxBody, max(streamWindow, c.memory.Free(c.maxBody)/2)) // leaves memory for other calls
	conn := c.current.Load()
	for reserved := int64(0); ; {
		if err := held.Take(int(limit - reserved)); err != nil {
			return nil, noMemory(err)
		}
		reserved = limit
		err = conn.Invoke(ctx, r.Method, &r.Message, &reply, append(options, grpc.MaxCallRecvMsgSize(int(limit)))...)
		size := max(refusedSize(err, min(2*limit, c.maxBody)), int64(len(reply)))
		if size > c.maxBody {
			return reply, err
		}
		if c.replies.record(r.Method, size); once || size <= limit {
			return reply, err
		}
		limit = size
	}
}

// refusedSize returns the size of the message that grpc-go refused, or 0. For a compressed message, whose size grpc-go does not
// reveal, it returns guess.
func refusedSize(err error, guess int64) (size int64) {
	switch text := status.Convert(err).Message(); {
	case strings.HasPrefix(text, tooLarge):
		_, _ = fmt.Sscanf(text, tooLarge+" (%d vs.", &size) // 0 if it is another text
	case strings.HasPrefix(text, inflatedTooLarge):
		return guess
	}
	return size
}

// replySizes holds the bytes to reserve for a response by method, if they are more than usualReply.
type replySizes struct {
	mu  sync.Mutex
	all map[string]int64
}

func (s *replySizes) size(method string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(usualReply, s.all[method])
}

// record records the size of a method's response, plus a quarter for growth. Shorter responses make it forget a long one
// slowly. If there are too many methods, it forgets them all.
func (s *replySizes) record(method string, size int64) {
	const maxMethods = 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[method]
	size = max(size+size/4, known-known/32)
	switch {
	case size <= usualReply:
		delete(s.all, method)
		return
	case s.all == nil || len(s.all) >= maxMethods:
		s.all = map[string]int64{}
	}
	s.all[method] = size
}
