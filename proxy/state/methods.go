package state

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// Tells reports whether a method, with its leading slash, reads the state at a height: a method of a
// service named Query. Other services ignore the height that they are asked for, and some of them
// repeat it in their answers.
func Tells(name string) bool {
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	before, isQuery := strings.CutSuffix(service, ".Query")
	return isQuery && name[0] == '/' && isName(method) && isPackage(before)
}

// Tells reports whether a method's answers are kept as the state at a height: those that [Tells], except the ones
// that nodes compute outside the state.
func (o Options) Tells(name string) bool { return Tells(name) && !o.Passes(name) }

// Passes reports whether a method is passed through, because nodes compute its answers outside the state.
func (o Options) Passes(name string) bool { return o.Rows[name].Class == blocks.Never }

// isPackage tells names with a dot between each two.
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

// Finds reports whether a method's answer to a message is fixed once it is found, whichever height is asked for: the
// message names a transaction, or a block by its height.
func (o Options) Finds(name string, message []byte) bool {
	class := o.Rows[name].Class
	return class == blocks.Found || class == blocks.Block && heightIn(message) > 0
}

// heightIn returns the height in the first field of a message, as all methods about blocks have it; 0 for none.
func heightIn(message []byte) (height uint64) {
	for f, ok := range protofield.All(message) {
		if ok && f.Number == 1 && f.Type == protowire.VarintType {
			height = f.Varint()
		}
	}
	return height
}

// CostOf is what a method, or a path of abci_query, costs a node that is asked with a message: as much as
// the REST path that gives the same, or for a value that no path gives as much as a path that is unknown.
func (o Options) CostOf(name string, message []byte) node.Cost {
	row, known := o.Rows[name]
	switch {
	case strings.HasPrefix(appPath(name), "store/") && !strings.HasSuffix(name, "/key"): // all that is below a prefix
		return node.Scan
	case Tells(name) && isLarge(message):
		return node.Scan
	case !known && (Tells(name) || Simulates(name)):
		return node.Page
	default:
		return row.Cost
	}
}

// isLarge reports whether a message requests a page that costs the node as much as the whole set.
// Each message has its page under a number of its own, and so it is known by its form.
func isLarge(message []byte) bool {
	for f := range protofield.All(message) {
		if limitOf(f.Bytes()) > dialect.LargePage {
			return true
		}
	}
	return false
}

// The fields of a page. The first is bytes.
const (
	keyField   = 1
	limitField = 3
	pageFields = 5
)

// limitOf is the limit of a page, 0 for what is no page.
func limitOf(page []byte) (limit uint64) {
	for f, ok := range protofield.All(page) {
		if !ok || f.Number > pageFields || (f.Type == protowire.BytesType) != (f.Number == keyField) {
			return 0
		}
		if f.Number == limitField {
			limit = f.Varint()
		}
	}
	return limit
}

// Simulates reports whether a method, or a path of abci_query, runs a transaction, which costs a node
// what it costs to take one in.
func Simulates(name string) bool {
	return strings.HasPrefix(appPath(name)+"/", "app/simulate/") || strings.HasSuffix(name, "/Simulate") && !Tells(name)
}

// appPath returns a path of abci_query without the leading slash. The SDK reads paths of the application and of its
// stores with or without it, and ignores what follows their names.
func appPath(name string) string { return strings.TrimPrefix(name, "/") }
