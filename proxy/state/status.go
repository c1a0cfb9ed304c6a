package state

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/upstream/node"
)

// Response returns the gRPC answer in a body of a type: a message, or the status that says why there is none. ran reports
// whether the method's handler has run.
func (o Options) Response(name, typ string, body []byte) (message []byte, st *status.Status, ran bool) {
	switch typ {
	case node.MessageType:
		return body, nil, true
	case node.StatusType, node.UnrunType:
		p := new(spb.Status)
		if err := proto.Unmarshal(body, p); err != nil {
			return nil, status.New(codes.Internal, err.Error()), false
		}
		return nil, status.FromProto(p), typ == node.StatusType
	default:
		return o.bridge(name, body)
	}
}

// bridge returns the answer of a method from the RPC's answer to abci_query. The kind of an error is in its text.
func (o Options) bridge(name string, member []byte) (message []byte, st *status.Status, ran bool) {
	value := memberValue(member)
	r := gjson.Get(value, "response")
	if !r.Exists() {
		return nil, status.New(codes.Unknown, gjson.Get(value, "data").String()), false
	}
	code, log := r.Get("code").Int(), r.Get("log").String()
	ran = r.Get("height").Int() > 0
	switch {
	case code == 0:
		message, _ = base64.StdEncoding.DecodeString(r.Get("value").String())
		return message, nil, true
	case log == unrouted:
		return nil, status.New(codes.Unimplemented, o.unknownMethod(name)), false
	case code == invalidRequest && undecoded.MatchString(log):
		return nil, status.New(codes.Internal, "grpc: error unmarshalling request: "+strings.TrimSuffix(log, described[code])), false
	default:
		return nil, statusFrom(r.Get("codespace").String(), code, log, ran), ran
	}
}

// memberValue returns the value of a member of the RPC's response.
func memberValue(member []byte) string {
	_, value, _ := strings.Cut(string(member), ":")
	return value
}

// isUnrouted reports whether an answer of the RPC says that the node does not have the method.
func isUnrouted(member []byte) bool {
	return gjson.Get(memberValue(member), "response.log").String() == unrouted
}

// unknownMethod returns the text of nodes for a method that they do not have. The RPC does not show whether it has the
// service: the rows name a method of it if so.
func (o Options) unknownMethod(name string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	for known := range o.Rows {
		if strings.HasPrefix(known, "/"+service+"/") {
			return "unknown method " + method + " for service " + service
		}
	}
	return "unknown service " + service
}

// unrouted is the RPC's error for a method that it does not have.
const unrouted = "unknown query path: unknown request"

// statusText matches a gRPC status in the RPC's text.
var statusText = regexp.MustCompile(`(?s)^rpc error: code = (\w+) desc = (.*)$`)

// invalidRequest is a code of the codespace sdk.
const invalidRequest = 18

// described are the suffixes of the RPC's texts, by code in the codespace sdk, to which the SDK converts gRPC statuses.
var described = map[int64]string{4: ": unauthorized", 6: ": unknown request", invalidRequest: ": invalid request", 22: ": key not found"}

// undecoded matches the RPC's error for a message that cannot be decoded, so that no handler has run.
var undecoded = regexp.MustCompile(`^(proto: |unexpected EOF: invalid request$)`)

// statusFrom returns the gRPC status that the SDK converted to an error of the RPC.
func statusFrom(codespace string, code int64, log string, ran bool) *status.Status {
	if !ran { // the height could not be read; the error's description follows the last colon
		i := max(0, strings.LastIndex(log, ": "))
		return status.New(codes.Unknown, fmt.Sprintf("codespace %s code %d: %s: %s", codespace, code, strings.TrimPrefix(log[i:], ": "), log[:i]))
	}
	text := log
	if codespace == "sdk" {
		text = strings.TrimSuffix(log, described[code])
	}
	if parts := statusText.FindStringSubmatch(text); parts != nil {
		return status.New(node.CodeNamed(parts[1]), parts[2])
	}
	return status.New(codes.Unknown, text)
}
