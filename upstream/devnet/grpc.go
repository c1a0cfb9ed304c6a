package devnet

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A grpcServer answers the methods that abci_query has, by gRPC without compression.
type grpcServer struct{ node *Node }

const heightHeader = "X-Cosmos-Block-Height"

// ServeHTTP answers one call.
func (s *grpcServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var head [5]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	message, err := io.ReadAll(io.LimitReader(r.Body, int64(binary.BigEndian.Uint32(head[1:]))))
	if err != nil {
		return
	}
	a := s.answer(r.URL.Path, message, r.Header.Get(heightHeader))
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if a.Height > 0 {
		h.Set(heightHeader, strconv.FormatInt(a.Height, 10))
	}
	if a.Code == 0 {
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(a.Value))), a.Value...)) //nolint:gosec // no answer has 4 GiB
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(a.Status))
	h.Set(http.TrailerPrefix+"Grpc-Message", a.Message)
}

// answer is the answer of a method, at a height if one is asked for.
func (s *grpcServer) answer(method string, message []byte, at string) cosmos.Answer {
	n := s.node
	height, _ := strconv.ParseInt(at, 10, 64)
	switch {
	case at == "" && view{n}.Now().Restarted:
		return cosmos.Answer{Code: 26, Status: 2, Message: "codespace sdk code 26: invalid height: context did not contain latest block height in either check state or finalize block state (" + strconv.FormatInt(n.Height(), 10) + ")"}
	case strings.HasSuffix(method, ".Service/GetNodeInfo"):
		network := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), n.chain.id)
		return cosmos.Answer{Height: max(height, 1), Value: protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), network)}
	}
	a := n.chain.cosmos.Query(view{n}, method, message, height)
	n.asked.count(Asked{URI: "grpc " + method + "?" + hex.EncodeToString(message), Height: a.Height})
	return a
}
