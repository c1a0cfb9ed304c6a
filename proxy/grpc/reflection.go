package grpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tipcache/tipcache/upstream/node"
)

// unaryPackages are prefixes of services named Query whose methods are all unary: those of the SDK, ibc, wasm and
// Story.
var unaryPackages = []string{"/cosmos.", "/ibc.", "/cosmwasm.wasm.", "/story."}

// isUnary reports whether a method of a service named Query is known to be unary: it has a row, its package is
// known, or the node's reflection says so. If no node offers gRPC, methods are read by abci_query, which cannot
// stream.
func (d *Handler) isUnary(name string) bool {
	if _, hasRow := d.o.State.Rows[name]; hasRow || d.o.Stream == nil {
		return true
	}
	if slices.ContainsFunc(unaryPackages, func(before string) bool { return strings.HasPrefix(name, before) }) {
		return true
	}
	_, known := d.reflection.unary.Load(name)
	return known
}

const (
	reflectEvery = time.Minute     // minimum time between two requests for a node's list of services
	reflectTime  = 2 * time.Second // maximum time to read all services
	mostServices = 1000            // maximum number of services read
	mostNames    = 1 << 20         // maximum number of bytes of all names
)

// Reflection services before and since grpc-go 1.54, with equal messages.
var reflectMethods = []string{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"}

// reflection records what a node's reflection says about services named Query. Each service is read once, and again after
// calls of an unknown method: an upgrade of the chain may have added it.
type reflection struct {
	life     context.Context //nolint:containedctx // the handler's
	open     func(ctx context.Context, method string) (*node.Stream, error)
	lastRead atomic.Int64 // last request to the node, Unix time in nanoseconds
	read     sync.Map     // keys are the names of services
	outdated sync.Map     // keys are the names of services with a call of an unknown method since they were read
	unary    sync.Map     // keys are the names of unary methods of these services
	size     int          // bytes of the names in read and unary; only used while reading from the node
}

// add adds a name to a set. It ignores names beyond mostNames.
func (r *reflection) add(to *sync.Map, name string) {
	if r.size+len(name) > mostNames {
		return
	}
	if _, known := to.LoadOrStore(name, nil); !known {
		r.size += len(name)
	}
}

// update records the call of an unknown method. At most once a minute it reads new services and all outdated ones from the
// node, so that calls of other services do not delay a method. The first caller waits for it.
func (r *reflection) update(name string) {
	service := strings.TrimPrefix(name[:max(0, strings.LastIndexByte(name, '/'))], "/")
	if _, known := r.read.Load(service); known {
		r.outdated.Store(service, nil)
	}
	last, now := r.lastRead.Load(), time.Now().UnixNano()
	if now-last < int64(reflectEvery) || !r.lastRead.CompareAndSwap(last, now) {
		return
	}
	ctx, cancel := context.WithTimeout(r.life, reflectTime)
	defer cancel()
	for _, method := range reflectMethods {
		if err := r.readServices(ctx, method); status.Code(err) != codes.Unimplemented {
			return // after an error the methods remain unknown
		}
	}
}

func (r *reflection) readServices(ctx context.Context, method string) error {
	stream, err := r.open(ctx, method)
	if err != nil {
		return err
	}
	defer stream.Close()
	all, err := exchange(stream, &reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return err
	}
	services := all.GetListServicesResponse().GetService()
	for _, s := range services[:min(len(services), mostServices)] {
		name := s.GetName()
		_, known := r.read.Load(name)
		_, outdated := r.outdated.LoadAndDelete(name)
		if strings.HasSuffix(name, ".Query") && (!known || outdated) {
			file, err := exchange(stream, &reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
			if err != nil {
				return err
			}
			r.learn(name, file.GetFileDescriptorResponse().GetFileDescriptorProto())
		}
	}
	return stream.CloseSend()
}

func exchange(stream *node.Stream, q *reflectpb.ServerReflectionRequest) (*reflectpb.ServerReflectionResponse, error) {
	message, err := proto.Marshal(q)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(message) // Receive returns the error
	reply, err := stream.Receive()
	if err != nil {
		return nil, err
	}
	a := new(reflectpb.ServerReflectionResponse)
	return a, proto.Unmarshal(reply, a)
}

// learn records the methods of a service from its file descriptors.
func (r *reflection) learn(service string, files [][]byte) {
	r.add(&r.read, service)
	for _, text := range files {
		file := new(descriptorpb.FileDescriptorProto)
		if proto.Unmarshal(text, file) != nil {
			continue
		}
		for _, s := range file.GetService() {
			if file.GetPackage()+"."+s.GetName() != service {
				continue
			}
			for _, m := range s.GetMethod() {
				if !m.GetClientStreaming() && !m.GetServerStreaming() {
					r.add(&r.unary, fmt.Sprintf("/%s/%s", service, m.GetName()))
				}
			}
		}
	}
}
