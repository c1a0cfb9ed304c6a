package blocks

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream"
)

// OfBroadcast returns the failure for an error of a broadcast. If a node may have the transaction, the failure names its hash, and
// the request that asks for it: ask, in which %X is the hash. tx is nil if it is not known.
func OfBroadcast(err error, tx []byte, ask string) error {
	if !upstream.MayHaveRun(err) {
		return err
	}
	f := &failure.Failure{Status: http.StatusGatewayTimeout, Err: err, Public: "the chain node did not answer, so it is not known whether it has the transaction"}
	if tx != nil {
		hash := sha256.Sum256(tx)
		f.Public += fmt.Sprintf(" %X; before you send another one, ask for it by "+ask, hash, hash)
	}
	return f
}
