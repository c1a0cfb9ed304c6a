package cosmos

import (
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A service is a gRPC method that abci_query can call and whose response changes with the blocks. The response is that
// of a REST route, encoded as a message. Other methods are answered by documents.
type service struct {
	method  string
	pattern string                // pattern of the REST route
	request string                // names of the first fields
	answer  protoreflect.FullName // type of the response message
}

// services are the methods whose responses change with the blocks.
var services = []service{
	{"/cosmos.auth.v1beta1.Query/Account", auth + "/accounts/{address}", "address", "cosmos.auth.v1beta1.QueryAccountResponse"},
	{"/cosmos.bank.v1beta1.Query/Balance", bank + "/balances/{address}/by_denom", "address denom", "cosmos.bank.v1beta1.QueryBalanceResponse"},
	{"/cosmos.bank.v1beta1.Query/AllBalances", bank + "/balances/{address}", "address", "cosmos.bank.v1beta1.QueryAllBalancesResponse"},
	{"/cosmos.staking.v1beta1.Query/Pool", staking + "/pool", "", "cosmos.staking.v1beta1.QueryPoolResponse"},
	{"/cosmos.tx.v1beta1.Service/GetTx", transactions + "/txs/{hash}", "hash", "cosmos.tx.v1beta1.GetTxResponse"},
}

// An Answer is the response of abci_query or of a gRPC call.
type Answer struct {
	Value     []byte
	Status    codes.Code // status of a gRPC call
	Message   string     // its error message
	Code      int
	Log       string
	Codespace string
	Height    int64 // 0 if no state was read
}

// abciErrors are the codes of abci_query by gRPC code, with the text that the SDK adds.
var abciErrors = map[codes.Code]struct {
	code   int
	suffix string
}{codes.InvalidArgument: {18, "invalid request"}, codes.NotFound: {22, "key not found"}, codes.Internal: {6, "unknown request"}}

// Query calls a method at a height, as abci_query does. Height 0 means the newest.
func (c *Chain) Query(n state.View, path string, data []byte, height int64) Answer {
	now := n.Now()
	of := slices.IndexFunc(services, func(s service) bool { return s.method == path })
	recorded, known := documents()[path]
	if height == 0 {
		height = now.Height
	}
	code, name, text := now.Unreadable(height)
	switch {
	case of < 0 && !known && height >= 0:
		name, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		text := "unknown service " + name
		if slices.ContainsFunc(services, func(s service) bool { return strings.HasPrefix(s.method, "/"+name+"/") }) {
			text = "unknown method " + method + " for service " + name
		}
		return Answer{Code: 6, Codespace: "sdk", Log: "unknown query path: unknown request", Status: 12, Message: text}
	case code != 0:
		return Answer{Code: code, Codespace: "sdk", Log: text + ": " + name, Status: codes.Unknown, Message: fmt.Sprintf("codespace sdk code %d: %s: %s", code, name, text)}
	case known:
		value, _ := base64.StdEncoding.DecodeString(recorded)
		return Answer{Value: value, Height: height}
	}
	s := &services[of]
	q := &query{chain: c, node: n, now: now, path: s.pattern, args: map[string]string{"pagination.limit": "1000"}}
	for i, name := range strings.Fields(s.request) {
		q.args[name] = string(protofield.Bytes(data, protowire.Number(i+1)))
	}
	q.at(height)
	body, err := routes[slices.IndexFunc(routes, func(r route) bool { return r.pattern == s.pattern })].serve(q)
	var value []byte
	if err == nil {
		value, err = message(s.answer, body)
	}
	if err != nil {
		return refused(status.Convert(err), height)
	}
	return Answer{Value: value, Height: height}
}

func refused(f *status.Status, height int64) Answer {
	a := Answer{Code: 18, Codespace: "sdk", Log: f.Message() + ": invalid request", Height: height, Status: f.Code(), Message: f.Message()}
	if e, known := abciErrors[f.Code()]; known {
		a.Code, a.Log = e.code, f.Err().Error()+": "+e.suffix
	}
	return a
}

//go:embed services.json
var serviceTypes []byte

// types are the messages of the services. services.json has the fields that clients read.
var types = sync.OnceValue(func() *dynamicpb.Types {
	var set descriptorpb.FileDescriptorSet
	err := protojson.Unmarshal(serviceTypes, &set)
	files, wrong := protodesc.NewFiles(&set)
	if err = errors.Join(err, wrong); err != nil {
		panic(fmt.Sprintf("devnet: services.json: %v", err))
	}
	return dynamicpb.NewTypes(files)
})

// message encodes JSON as a message of a type.
func message(name protoreflect.FullName, body string) ([]byte, error) {
	of, err := types().FindMessageByName(name)
	if err != nil {
		return nil, err
	}
	m := of.New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: types()}).Unmarshal([]byte(body), m); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// stores are the modules whose stores abci_query can read.
var stores = []string{"acc", "bank", "staking", "wasm"}

var storePath = regexp.MustCompile(`^/store/([^/]*)(.*)$`)

// IsStorePath reports whether a path of abci_query reads a store directly.
func IsStorePath(path string) bool { return storePath.MatchString(path) }

// QueryStore reads a store at a height, as abci_query does. Height 0 means the newest. A pruned or future height looks
// like a missing key, except for the log.
func (c *Chain) QueryStore(n state.View, path string, data []byte, height int64) Answer {
	now, parts := n.Now(), storePath.FindStringSubmatch(path)
	if height == 0 {
		height = now.Height
	}
	switch {
	case !slices.Contains(stores, parts[1]):
		return Answer{Code: 6, Codespace: "sdk", Log: fmt.Sprintf("no such store: %s: unknown request", parts[1])}
	case parts[2] != "/key":
		return Answer{Code: 6, Codespace: "sdk", Log: fmt.Sprintf("unexpected query path: %v: unknown request", parts[2])}
	case height > now.Height || height < now.Oldest:
		return Answer{Log: "version does not exist", Height: height}
	}
	sum := state.Digest(c.Seed, path+hex.EncodeToString(data), height+1000*n.Forks(height))
	return Answer{Value: sum[:], Height: height}
}
