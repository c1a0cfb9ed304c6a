package dialect

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// Costs are what the methods of gRPC cost a node, by their names: as much as the paths that give the
// same.
type Costs map[string]node.Cost

// CostsOf are the costs by the rows of tables.
func CostsOf(tables ...[]Row) Costs {
	costs := Costs{}
	for _, row := range slices.Concat(tables...) {
		costs[row.Method] = row.Cost
	}
	delete(costs, "") // of rows that name none
	return costs
}

// LargeMessage says whether a message asks for a page that weighs on the node as much as the whole set.
// Each message has its page under a number of its own, and so it is known by its form.
func LargeMessage(message []byte) bool {
	for f := range protofield.All(message) {
		if limitOf(f.Bytes()) > largePage {
			return true
		}
	}
	return false
}

// The fields of a page, of which the first is in bytes.
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
