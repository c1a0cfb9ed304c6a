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
	updates = "/x.Query/Updates" // responds with three messages
	price   = "/x.Query/Price"
	volume  = "/x.Query/Volume" // known to reflection after an upgrade
)

// serveQueries makes the node serve updates and price, and describe them by a version of reflection; "" means none.
func (n *recordedNode) serveQueries(reflects string) {
	n.setService(func(s google.ServerStream) error {
		_ = s.SetHeader(metadata.Pairs("x-cosmos-block-height", "746"))
		method, _ := google.MethodFromServerStream(s)
		for i := range map[string]int{updates: 3, price: 1, volume: 1}[method] {
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
	methods := []*descriptorpb.MethodDescriptorProto{
		{Name: proto.String("Updates"), ServerStreaming: proto.Bool(true)}, {Name: proto.String("Price")}, {Name: proto.String("Volume")},
	}
	for i := range n.surplus {
		methods = append(methods, &descriptorpb.MethodDescriptorProto{Name: proto.String(fmt.Sprintf("Surplus%0100d", i))})
	}
	describe := func(methods []*descriptorpb.MethodDescriptorProto) []byte {
		file, _ := proto.Marshal(&descriptorpb.FileDescriptorProto{Package: proto.String("x"), Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Query"), Method: methods,
		}}})
		return file
	}
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
				file := describe(methods[:2])
				n.change(func() {
					if n.upgraded {
						file = describe(methods)
					}
				})
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

// countMessages returns the number of messages in the response of a method.
func countMessages(t *testing.T, c *google.ClientConn, method string) (messages int) {
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

func TestMethodsOfUnknownQueryServicesAreStreamsUnlessKnownToBeUnary(t *testing.T) {
	for name, c := range map[string]struct {
		reflects string
		hasRow   bool
		reads    int // node requests for three calls of price
	}{
		"without reflection":      {"", false, 3},
		"with reflection v1alpha": {"v1alpha", false, 1},
		"with reflection v1":      {"v1", false, 1},
		"with a row":              {"", true, 1},
	} {
		test := func(t *testing.T, change func(*setup)) {
			n := newRecordedNode(t)
			n.serveQueries(c.reflects)
			d := open(t, n, true, change, func(s *setup) {
				if c.hasRow {
					s.grpc.State.Rows = map[string]dialect.Row{price: {Cost: node.Cheap}}
				}
			})
			conn := d.dial(t)
			for range 3 {
				expect.Equal(t, countMessages(t, conn, updates), 3, "messages of a stream")
				r := invoke(t.Context(), conn, price, "")
				r.expectMessageAt(t, "746")
				expect.Equal(t, string(r.message), "0", "message of a unary call")
			}
			expect.Equal(t, n.requests("gRPC "+price), c.reads, "node requests for three calls")
			if got := n.requests("reflection of "); c.reflects != "" && (got != 1 || n.requests("reflection of x.Query") != 1) {
				t.Errorf("reflection requests = %d, want 1 for x.Query", got)
			}
		}
		t.Run(name, func(t *testing.T) { test(t, func(*setup) {}) })
		t.Run(name+", in the lane", func(t *testing.T) { test(t, withLane) })
	}
}

func TestMethodsThatAnUpgradeAddsBecomeKnown(t *testing.T) {
	n := newRecordedNode(t)
	n.serveQueries("v1")
	d := open(t, n, true)
	conn := d.dial(t)
	invoke(t.Context(), conn, volume, "").expectMessageAt(t, "746")
	expect.Equal(t, n.requests("reflection of x.Query"), 1, "reflection requests")
	n.change(func() { n.upgraded = true })
	d.handler.ReflectNow()
	n.expectVolumeCached(t, conn)
}

// expectVolumeCached checks that three calls of a method that the upgrade has added need one request to the node.
func (n *recordedNode) expectVolumeCached(t *testing.T, conn *google.ClientConn) {
	t.Helper()
	before := n.requests("gRPC " + volume)
	for range 3 {
		invoke(t.Context(), conn, volume, "").expectMessageAt(t, "746")
	}
	expect.Equal(t, n.requests("gRPC "+volume)-before, 1, "node requests for three calls of a method that the upgrade has added")
}

func TestNamesOfANodeThatDescribesTooManyMethodsAreBounded(t *testing.T) {
	n := newRecordedNode(t)
	n.surplus, n.upgraded = 20_000, true
	n.serveQueries("v1")
	d := open(t, n, true)
	conn := d.dial(t)
	invoke(t.Context(), conn, price, "").expectMessageAt(t, "746")
	if got := d.handler.UnaryNames(); got == 0 || got > 1<<20 {
		t.Errorf("names of unary methods = %d bytes, want some and at most 1 MiB", got)
	}
}

func TestCallsOfOtherServicesDoNotDelayMethodsThatAnUpgradeAdds(t *testing.T) {
	n := newRecordedNode(t)
	n.serveQueries("v1")
	d := open(t, n, true)
	conn := d.dial(t)
	invoke(t.Context(), conn, volume, "").expectMessageAt(t, "746")
	n.change(func() { n.upgraded = true })
	invoke(t.Context(), conn, volume, "").expectMessageAt(t, "746")
	d.handler.ReflectNow()
	invoke(t.Context(), conn, "/y.Query/Other", "")
	n.expectVolumeCached(t, conn)
}

func TestMethodsOfUnknownQueryServicesAreReadByABCIQueryWithoutGRPC(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, false)
	invoke(t.Context(), d.dial(t), price, "").expectCode(t, codes.Unimplemented, "unknown method")
	n.expectRequests(t, price, 0, 1)
}
