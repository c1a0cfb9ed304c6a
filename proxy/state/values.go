package state

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
)

// Values are the values of a chain's state, for one interface.
type Values struct {
	reader *blocks.Reader
	kind   *blocks.Kind
	seed   maphash.Seed // digests of the node's answers, of this process alone
}

// New makes the values that a reader reads, of a kind that is pinned.
func New(r *blocks.Reader, kind *blocks.Kind) *Values {
	return &Values{reader: r, kind: kind, seed: maphash.MakeSeed()}
}

// A service named Query tells of the state. Other services ignore the height that they are
// asked for, and some of them repeat it in their answers.
var method = regexp.MustCompile(`^/([A-Za-z0-9_]+\.)+Query/[A-Za-z0-9_]+$`)

// Tells says whether a method, with the slash before it, tells of the state at a height.
func Tells(name string) bool { return method.MatchString(name) }

// Query is the query for the value that a method gives for a message.
func (v *Values) Query(name string, message []byte, hs blocks.Heights) *blocks.Query {
	o := &origin{Values: v, method: name, data: strings.ToUpper(hex.EncodeToString(message))}
	return &blocks.Query{Key: key(name, o.data), Kind: v.kind, Heights: hs, Origin: o}
}

// longest is the length of data from which a key has a digest of it.
const longest = 512

func key(name, data string) string {
	if len(data) > longest {
		sum := sha256.Sum256([]byte(data))
		data = "sha256:" + hex.EncodeToString(sum[:])
	}
	return "state" + name + "?" + data
}
