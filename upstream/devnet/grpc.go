package devnet

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/protofield"
)

const heightHeader = "X-Cosmos-Block-Height"

// serveGRPC serves the methods of abci_query by gRPC, without compression.
func (n *Node) serveGRPC(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) < 5 {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	method, message := r.URL.Path, body[5:]
	height, _ := strconv.ParseInt(r.Header.Get(heightHeader), 10, 64) // 0 means the newest
	a := cosmos.Answer{Height: max(height, 1), Value: protofield.Append(nil, 1, protofield.Append(nil, 4, n.chain.id))}
	if !strings.HasSuffix(method, ".Service/GetNodeInfo") {
		a = n.chain.cosmos.Query(n, method, message, height)
		n.asked.Count("grpc "+method+"?"+hex.EncodeToString(message), a.Height)
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if a.Height > 0 {
		h.Set(heightHeader, strconv.FormatInt(a.Height, 10))
	}
	if a.Code == 0 {
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(a.Value))), a.Value...)) //nolint:gosec // no answer has 4 GiB
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(a.Status)))
	h.Set(http.TrailerPrefix+"Grpc-Message", a.Message)
}
