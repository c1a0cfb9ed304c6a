package state

import (
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/upstream/node"
)

// A service named Query tells of the state. Other services ignore the height that they are
// asked for, and some of them repeat it in their answers.
var method = regexp.MustCompile(`^/([A-Za-z0-9_]+\.)+Query/[A-Za-z0-9_]+$`)

// Tells says whether a method, with the slash before it, tells of the state at a height.
func Tells(name string) bool { return method.MatchString(name) }

// A transaction is the same at every height, whichever is asked for.
var getTx = regexp.MustCompile(`^/([A-Za-z0-9_]+\.)+tx\.v1beta1\.Service/GetTx$`)

// Finds says whether a method, with the slash before it, finds what is fixed from then on. It
// ignores heights.
func Finds(name string) bool { return getTx.MatchString(name) }

// CostOf is what a method costs a node, besides which values cost little.
func CostOf(name string) node.Cost {
	switch {
	case strings.HasSuffix(name, ".tx.v1beta1.Service/GetTxsEvent"): // a search
		return node.Scan
	case Simulates(name), strings.HasSuffix(name, "/GetBlockWithTxs"):
		return node.Page
	default:
		return node.Cheap
	}
}

// Simulates says whether a method, or a path of abci_query, runs a transaction, which costs a node
// what it costs to take one in.
func Simulates(name string) bool {
	return name == "/app/simulate" || strings.HasSuffix(name, "/Simulate") && !Tells(name)
}
