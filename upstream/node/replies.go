package node

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// usualReply is the memory that a call by gRPC reserves for its response, in bytes, until the method is known to have
// longer ones.
const usualReply = 256 << 10

// invoke calls a method once, within reserved memory. The library tells the size of a message only when it refuses it,
// so a method whose response is longer than any before is called again with more memory, unless it may change something.
func (c *grpcClient) invoke(ctx context.Context, r *Invocation, options ...grpc.CallOption) (reply []byte, err error) {
	held := c.memory.Open("", true)
	defer held.Close()
	most := c.maxBody
	if !r.Write {
		most = min(c.replies.size(r.Method), c.maxBody)
	}
	most = min(most, max(streamWindow, c.memory.Free(c.maxBody)/2)) // others need some, too
	for reserved := int64(0); ; {
		if err := held.Take(int(most - reserved)); err != nil {
			return nil, noMemory(err)
		}
		reserved = most
		err = c.conn.Invoke(ctx, r.Method, &r.Message, &reply, append(options, grpc.MaxCallRecvMsgSize(int(most)))...)
		size := refusedSize(err)
		if r.Write || size <= most || size > c.maxBody {
			return reply, err
		}
		c.replies.note(r.Method, size)
		most = size
	}
}

// refusedSize returns the size of the message that the library has refused, 0 for none.
func refusedSize(err error) (size int64) {
	if text := status.Convert(err).Message(); strings.HasPrefix(text, tooLarge) {
		_, _ = fmt.Sscanf(text, tooLarge+" (%d vs.", &size) // 0 if it is another text
	}
	return size
}

// A replySizes has the longest responses of methods, in bytes.
type replySizes struct {
	mu  sync.Mutex
	all map[string]int64
}

func (s *replySizes) size(method string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(usualReply, s.all[method])
}

// note keeps the size of a method with some room for the next block. It forgets all methods if there are very many.
func (s *replySizes) note(method string, size int64) {
	const methods = 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= methods {
		s.all = map[string]int64{}
	}
	s.all[method] = size + size/4
}
