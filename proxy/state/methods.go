package state

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// ReadsState reports whether a method, with its leading slash, reads the state at a height. Methods of services
// named Query do. Other services ignore the requested height, and some of them repeat it in their responses.
func ReadsState(name string) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return strings.HasSuffix(service, ".Query") && IsMethod(name)
}

// IsMethod reports whether a text is a well-formed name of a method, with its service and a leading slash.
func IsMethod(name string) bool {
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return strings.HasPrefix(name, "/") && isName(method) && isPackage(service)
}

// ReadsState reports whether a method's responses are cached as the state at a height: like [ReadsState], without
// the methods that nodes compute outside the state.
func (o Options) ReadsState(name string) bool { return ReadsState(name) && !o.Passes(name) }

// Passes reports whether a method is passed through, because nodes compute its responses outside the state.
func (o Options) Passes(name string) bool { return o.Rows[name].Class == blocks.Never }

// isPackage reports whether a text consists of names separated by dots.
func isPackage(text string) bool {
	for name := range strings.SplitSeq(text, ".") {
		if !isName(name) {
			return false
		}
	}
	return true
}

func isName(text string) bool {
	for _, c := range []byte(text) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_') {
			return false
		}
	}
	return text != ""
}

// IsFixed reports whether a method's response to a message is the same at every height once it is found: the
// message names a transaction, or a block by its height.
func (o Options) IsFixed(name string, message []byte) bool {
	class := o.Rows[name].Class
	return class == blocks.Found || class == blocks.Block && heightIn(message) > 0
}

// heightIn returns the height in the first field of a message, where all methods for blocks have it; 0 for none.
func heightIn(message []byte) (height int64) {
	for f, ok := range protofield.All(message) {
		if ok && f.Number == 1 && f.Type == protowire.VarintType {
			height = int64(f.Varint()) //nolint:gosec // the field is an int64
		}
	}
	return height
}

// CostOf returns what a method, or a path of abci_query, with a message costs a node: as much as the REST path with the same
// response. Without one, reads of the state and transactions cost a page, and other methods as much as a single item.
func (o Options) CostOf(name string, message []byte) node.Cost {
	row, known := o.Rows[name]
	switch {
	case strings.HasPrefix(appPath(name), "store/") && !isStoreKey(name): // all keys with a prefix
		return node.Scan
	case ReadsState(name) && isLarge(message):
		return node.Scan
	case !known && (ReadsState(name) || Posts(name)):
		return node.Page
	default:
		return row.Cost
	}
}

// isLarge reports whether a message requests a page that costs the node as much as the whole set. The number of
// the page's field differs by message, so every field that has the form of a page counts.
func isLarge(message []byte) bool {
	for f := range protofield.All(message) {
		if limitOf(f.Bytes()) > dialect.LargePage {
			return true
		}
	}
	return false
}

// Numbers of the fields of a page. Only the key is a bytes field.
const (
	keyField   = 1
	limitField = 3
	pageFields = 5
)

// limitOf returns the limit of a page, 0 for a field that is no page. Nodes ignore unknown fields of a page.
func limitOf(page []byte) (limit uint64) {
	for f, ok := range protofield.All(page) {
		switch {
		case !ok:
			return 0
		case f.Number > pageFields:
		case (f.Type == protowire.BytesType) != (f.Number == keyField):
			return 0
		case f.Number == limitField:
			limit = f.Varint()
		}
	}
	return limit
}

// Posts reports whether a method, or a path of abci_query, simulates, encodes or decodes a transaction, which costs a node as
// much as accepting one. Such a call waits for its client's turn, and is sent to one node.
func Posts(name string) bool {
	return strings.HasPrefix(appPath(name)+"/", "app/simulate/") || strings.HasSuffix(name, "/Simulate") && !ReadsState(name) ||
		strings.HasPrefix(name, "/cosmos.tx.v1beta1.Service/Tx")
}

// Operation returns the name of a path of abci_query for access rules: without leading slash and ignored parts.
func Operation(path string) string {
	path = appPath(path)
	if app, name, ok := strings.Cut(path, "/"); ok && app == "app" {
		name, _, _ = strings.Cut(name, "/")
		return "app/" + name
	}
	return path
}

// ABCIQuery is the method of the SDK that reads the application by a path in its message, like abci_query of the RPC.
const ABCIQuery = "/cosmos.base.tendermint.v1beta1.Service/ABCIQuery"

// AdmitInner calls [AdmitKey] with the path in a message of ABCIQuery. It admits all other methods.
func AdmitInner(s *web.Stack, r *web.Request, name string, message []byte) error {
	if name != ABCIQuery {
		return nil
	}
	var path string
	for f, ok := range protofield.All(message) {
		if !ok || f.Number == 2 { // a malformed message has no path
			path = string(f.Bytes())
		}
	}
	return AdmitKey(s, r, path)
}

// AdmitKey applies the access rules to a path of ABCIQuery. The path must read one key of a store, as clients do for proofs.
// AdmitKey refuses all other paths, because simulations and scans have limits that only abci_query applies.
func AdmitKey(s *web.Stack, r *web.Request, path string) error {
	if !isStoreKey(path) {
		return failure.BadInput("path %q is not store/NAME/key; call abci_query of the RPC for other paths", web.Short(path))
	}
	return s.AdmitOperation(r, Operation(path))
}

// isStoreKey reports whether a path of abci_query reads one key of a store.
func isStoreKey(path string) bool {
	return strings.HasPrefix(appPath(path), "store/") && strings.HasSuffix(path, "/key")
}

// appPath returns a path of abci_query without the leading slash, which the SDK ignores in paths of app and store.
func appPath(name string) string { return strings.TrimPrefix(name, "/") }
