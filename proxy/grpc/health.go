package grpc

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/proxy/web"
)

// healthService is the service by which balancers and Kubernetes check a server. This server answers it itself: the empty name
// stands for this replica, and no other name is known.
const healthService = "/grpc.health.v1.Health/"

// serveHealth serves a health check, which needs no key and is neither limited, counted nor logged, like /readyz of the admin
// listener. The error is a gRPC status.
func (k *call) serveHealth(from *web.Request) error {
	k.from = from
	k.from.Record.Start = k.start
	k.reader.Stack.Arrive(k.from)
	serve := map[string]func(*call, string) error{healthpb.Health_Check_FullMethodName: (*call).checkHealth, healthpb.Health_Watch_FullMethodName: (*call).watchHealth}[k.name]
	if serve == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s for service %s", strings.TrimPrefix(k.name, healthService), strings.Trim(healthService, "/"))
	}
	if s, ok := k.stream.(*webStream); ok {
		s.receive()
	}
	message, ok, err := k.receive()
	switch {
	case err != nil:
		return k.statusOf(err)
	case !ok:
		return k.st.Err()
	}
	var request healthpb.HealthCheckRequest
	if err := proto.Unmarshal(message, &request); err != nil {
		return status.Errorf(codes.Internal, "grpc: error unmarshalling request: %v", err)
	}
	return serve(k, request.GetService())
}

// checkHealth sends the state of a service.
func (k *call) checkHealth(service string) error {
	if service != "" {
		return status.Error(codes.NotFound, "unknown service")
	}
	ready, _ := k.reader.Stack.Ready()
	return k.sendHealth(servingStatus(ready))
}

// watchHealth sends the state of a service now and after each change, until the client leaves or the server stops. It counts as
// a stream of the client.
func (k *call) watchHealth(service string) error {
	release, err := k.reader.Stack.HoldStream(window + streamCost)
	if err != nil {
		return k.statusOf(err)
	}
	defer release()
	leave, err := k.streams.Enter(&k.from.Record.Client, time.Second)
	if err != nil {
		return k.statusOf(err)
	}
	defer leave()
	if s, ok := k.stream.(*webStream); ok {
		s.outlast(k.reader.Stack.Deadline)
	}
	for {
		ready, changed := k.reader.Stack.Ready()
		state := servingStatus(ready)
		if service != "" {
			state, changed = healthpb.HealthCheckResponse_SERVICE_UNKNOWN, nil
		}
		if err := k.sendHealth(state); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-k.from.Context().Done():
			return status.FromContextError(k.from.Context().Err()).Err()
		case <-k.life.Done():
			return errStopping.Err()
		}
	}
}

func servingStatus(ready bool) healthpb.HealthCheckResponse_ServingStatus {
	if ready {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}

func (k *call) sendHealth(state healthpb.HealthCheckResponse_ServingStatus) error {
	message, err := proto.Marshal(&healthpb.HealthCheckResponse{Status: state})
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return k.deliver(message)
}
