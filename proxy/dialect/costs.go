package dialect

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/node"
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
	for len(message) > 0 {
		number, typ, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, typ, message[max(n, 0):])
		if n < 0 || size < 0 {
			return false
		}
		if page, n := protowire.ConsumeBytes(message[n:]); typ == protowire.BytesType && limitOf(page) > largePage && n > 0 {
			return true
		}
		message = message[n+size:]
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
	for len(page) > 0 {
		number, typ, n := protowire.ConsumeTag(page)
		size := protowire.ConsumeFieldValue(number, typ, page[max(n, 0):])
		if n < 0 || size < 0 || number > pageFields || (typ == protowire.BytesType) != (number == keyField) {
			return 0
		}
		if number == limitField {
			limit, _ = protowire.ConsumeVarint(page[n:])
		}
		page = page[n+size:]
	}
	return limit
}
