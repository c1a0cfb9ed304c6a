package limits

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"

	"github.com/tipcache/tipcache/proxy/failure"
)

// KeyHeader carries the key of a client.
const KeyHeader = "X-Api-Key"

// A Key lets its bearer ask. Several keys may share a name,
// so that one can take over from another.
type Key struct {
	Name   string            // whose it is; logged, unlike the key
	SHA256 [sha256.Size]byte // digest of the key: the key itself is not kept
	Rate   Rate              // how often it may ask; zero: Limits.Key
}

func (k *Key) owner() owner { return owner{kind: "key", name: k.Name} }

// keyOf returns the key a request comes with.
func (a *Admission) keyOf(r *http.Request) (found Key, err error) {
	presented := r.Header.Get(KeyHeader)
	if len(*a.keys.Load()) == 0 {
		return Key{}, &failure.Failure{Expected: true, Status: http.StatusUnauthorized, Public: "this is closed, for no API key is configured: " +
			"whoever runs the server adds a key to collections.keys (tipcache key new NAME makes one) or sets collections.auth to none"}
	}
	if presented == "" {
		return Key{}, &failure.Failure{Expected: true, Status: http.StatusUnauthorized, Public: "the " + KeyHeader + " header is required"}
	}
	found, known := a.KeyOf(presented)
	if !known {
		return Key{}, &failure.Failure{Expected: true, Status: http.StatusUnauthorized, Public: "the " + KeyHeader + " is not valid"}
	}
	return found, nil
}

// KeyOf is the key in force that is presented. How long it takes does not depend
// on how much of a key was guessed: digests are compared, and always all of them.
func (a *Admission) KeyOf(presented string) (found Key, known bool) {
	var room [64]byte // of an ordinary key
	digest := sha256.Sum256(append(room[:0], presented...))
	for _, key := range *a.keys.Load() {
		if subtle.ConstantTimeCompare(key.SHA256[:], digest[:]) == 1 {
			found, known = key, presented != ""
		}
	}
	return found, known
}

// SetKeys puts other keys in force, from the next request on.
func (a *Admission) SetKeys(keys []Key) {
	keys = slices.Clone(keys)
	a.keys.Store(&keys)
}

// AdmitKey lets clients pass that have a key, for as long as the name on it may ask,
// and says so as AdmitAddress does.
func (a *Admission) AdmitKey(r *http.Request, answer http.Header) (Key, error) {
	key, err := a.keyOf(r)
	if err != nil {
		return Key{}, err
	}
	rate := a.rateOf(key)
	if rate == (Rate{}) {
		return key, nil
	}
	return key, a.admit(r.Context(), key.owner(), rate, 1, answer)
}

func (a *Admission) rateOf(key Key) Rate {
	if key.Rate != (Rate{}) {
		return key.Rate
	}
	return a.Limits.Load().Key
}
