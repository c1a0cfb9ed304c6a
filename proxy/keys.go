package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"sync/atomic"
)

// apiKeyHeader carries the key of the collection interface.
const apiKeyHeader = "X-Api-Key"

// A Key lets its bearer ask for collections. Several keys may share a name,
// so that one can take over from another.
type Key struct {
	Name   string            // whose it is; logged, unlike the key
	SHA256 [sha256.Size]byte // digest of the key: the key itself is not kept
}

// A keyring is the set of keys in force.
type keyring struct {
	keys atomic.Pointer[[]Key]
}

func newKeyring(keys []Key) *keyring {
	k := &keyring{}
	k.set(keys)
	return k
}

func (k *keyring) set(keys []Key) {
	keys = slices.Clone(keys)
	k.keys.Store(&keys)
}

// authorize names the tenant a request is served for. How long it takes does
// not depend on how much of a key was guessed: digests are compared, and always
// all of them.
func (k *keyring) authorize(r *http.Request) (tenant string, err error) {
	presented := r.Header.Get(apiKeyHeader)
	if presented == "" {
		return "", &failure{Status: http.StatusUnauthorized, Public: "the " + apiKeyHeader + " header is required"}
	}
	digest, known := sha256.Sum256([]byte(presented)), false
	for _, key := range *k.keys.Load() {
		if subtle.ConstantTimeCompare(key.SHA256[:], digest[:]) == 1 {
			tenant, known = key.Name, true
		}
	}
	if !known {
		return "", &failure{Status: http.StatusUnauthorized, Public: "the " + apiKeyHeader + " is not valid"}
	}
	return tenant, nil // a rate of the tenant's would be spent here
}
