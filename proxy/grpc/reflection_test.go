package grpc_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const (
	updates = "/x.Query/Updates" // answers with three messages
	price   = "/x.Query/Price"
)

// hasQueries makes the node serve updates and price, and describe them by a version of reflection, "" for none.
func (n *recordedNode) hasQueries(reflects string) {
	n.answer(func(s google.ServerStream) error {
		_ = s.SetHeader(metadata.Pairs("x-cosmos-block-height", "746"))
		method, _ := google.MethodFromServerStream(s)
		for i := range map[string]int{updates: 3, price: 1}[method] {
			message := fmt.Append(nil, i)
			if err := s.SendMsg(&message); err != nil {
				return err
			}
		}
		return nil
	})
	if reflects == "" {
		return
	}
	file, _ := proto.Marshal(&descriptorpb.FileDescriptorProto{Package: proto.String("x"), Service: []*descriptorpb.ServiceDescriptorProto{{
		Name: proto.String("Query"),
		Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Updates"), ServerStreaming: proto.Bool(true)}, {Name: proto.String("Price")},
		},
	}}})
	n.reflect = func(s google.ServerStream, message []byte) error {
		if method, _ := google.MethodFromServerStream(s); method != "/grpc.reflection."+reflects+".ServerReflection/ServerReflectionInfo" {
			return status.Error(codes.Unimplemented, "unknown service")
		}
		for {
			q, a := new(reflectpb.ServerReflectionRequest), new(reflectpb.ServerReflectionResponse)
			_ = proto.Unmarshal(message, q)
			switch q.MessageRequest.(type) {
			case *reflectpb.ServerReflectionRequest_ListServices:
				a.MessageResponse = &reflectpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: &reflectpb.ListServiceResponse{
					Service: []*reflectpb.ServiceResponse{{Name: "x.Query"}, {Name: "x.Msg"}},
				}}
			case *reflectpb.ServerReflectionRequest_FileContainingSymbol:
				n.count("reflection of " + q.GetFileContainingSymbol())
				a.MessageResponse = &reflectpb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: &reflectpb.FileDescriptorResponse{
					FileDescriptorProto: [][]byte{file, []byte("no descriptor")},
				}}
			}
			reply, _ := proto.Marshal(a)
			if s.SendMsg(&reply) != nil || s.RecvMsg(&message) != nil {
				return nil //nolint:nilerr // the client has left
			}
		}
	}
}

// follow returns how many messages a method answers with.
func follow(t *testing.T, c *google.ClientConn, method string) (messages int) {
	t.Helper()
	s := expect.Value(c.NewStream(t.Context(), &google.StreamDesc{ServerStreams: true}, method))(t)
	var sent, got []byte
	_ = s.SendMsg(&sent)
	_ = s.CloseSend()
	for ; ; messages++ {
		switch err := s.RecvMsg(&got); {
		case errors.Is(err, io.EOF):
			return messages
		case err != nil:
			t.Errorf("%s: %v", method, err)
			return messages
		}
	}
}

func TestMethodsOfUnknownQueryServicesAreStreamedUnlessKnownToBeUnary(t *testing.T) {
	for name, c := range map[string]struct {
		reflects string
		hasRow   bool
		reads    int // of the price by three calls
	}{
		"without reflection":      {"", false, 3},
		"with reflection v1alpha": {"v1alpha", false, 1},
		"with reflection v1":      {"v1", false, 1},
		"with a row":              {"", true, 1},
	} {
		test := func(t *testing.T, more func(*setup)) {
			n := newRecordedNode(t)
			n.hasQueries(c.reflects)
			d := open(t, n, true, more, func(s *setup) {
				if c.hasRow {
					s.grpc.State.Rows = map[string]dialect.Row{price: {Cost: node.Cheap}}
				}
			})
			conn := d.dial(t)
			for range 3 {
				expect.Equal(t, follow(t, conn, updates), 3, "messages of a stream")
				if r := ask(t.Context(), conn, price, nil); r.err != nil || string(r.message) != "0" || r.height() != "746" {
					t.Errorf("unary: %q at %s, %v; want the node's answer at 746", r.message, r.height(), r.err)
				}
			}
			expect.Equal(t, n.times("gRPC "+price), c.reads, "node requests for three calls")
			if got := n.times("reflection of "); c.reflects != "" && (got != 1 || n.times("reflection of x.Query") != 1) {
				t.Errorf("the node was asked to describe services %d times, want once", got)
			}
		}
		t.Run(name, func(t *testing.T) { test(t, func(*setup) {}) })
		t.Run(name+", in the lane", func(t *testing.T) { test(t, withLane) })
	}
}

func TestMethodsOfUnknownQueryServicesAreReadByABCIQueryWithoutGRPC(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, false)
	if r := ask(t.Context(), d.dial(t), price, nil); status.Code(r.err) != codes.Unimplemented || n.times("RPC "+price) != 1 {
		t.Errorf("%v after %d reads by abci_query, want unimplemented after 1", r.err, n.times("RPC "+price))
	}
}
