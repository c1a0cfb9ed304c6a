package limits

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
)

// KeyHeader is the header with the client's API key.
const KeyHeader = "X-Api-Key"

// A Key is an API key. Several keys may share a name, so that one can replace another.
type Key struct {
	Name   string            // name of its owner; logged, unlike the key
	SHA256 [sha256.Size]byte // digest of the key
	Rate   Rate              // zero means Limits.Key
}

func (k *Key) owner() owner { return owner{kind: "key", name: k.Name} }

// keyOf returns the key of a request, or a failure with status 401.
func (a *Admission) keyOf(r *http.Request) (Key, error) {
	presented, why := r.Header.Get(KeyHeader), "the "+KeyHeader+" is not valid"
	if found, known := a.KeyOf(presented); known {
		return found, nil
	}
	switch {
	case len(*a.keys.Load()) == 0:
		why = "this route is closed because no API key is configured: " +
			"the operator adds a key to collections.keys (tipcache key new NAME makes one) or sets collections.auth to none"
	case presented == "":
		why = "the " + KeyHeader + " header is required"
	}
	return Key{}, &failure.Failure{Expected: true, Status: http.StatusUnauthorized, Public: why}
}

// KeyOf returns the configured key that was presented. It compares all digests, so its duration tells nothing of the keys.
func (a *Admission) KeyOf(presented string) (found Key, known bool) {
	var room [64]byte // fits an ordinary key
	digest := sha256.Sum256(append(room[:0], presented...))
	for _, key := range *a.keys.Load() {
		if subtle.ConstantTimeCompare(key.SHA256[:], digest[:]) == 1 {
			found, known = key, presented != ""
		}
	}
	return found, known
}

// KeyWithRate returns the configured key that was presented if it has a rate of its own. Requests then count against
// this rate on all routes, in place of the rate of their address.
func (a *Admission) KeyWithRate(presented string) (key Key, ok bool) {
	if presented == "" {
		return Key{}, false
	}
	if key, ok = a.KeyOf(presented); !ok || key.Rate == (Rate{}) {
		return Key{}, false
	}
	return key, true
}

// NextTurn returns the Turn of the next request by a key with a rate of its own.
func (a *Admission) NextTurn() uint32 { return a.turns.Add(1) % turnsPerKey }

// AdmitKey admits a request with a valid key within the rate of the key's name. It sets headers like Admit.
func (a *Admission) AdmitKey(r *http.Request, answer http.Header) (Key, error) {
	key, err := a.keyOf(r)
	if err != nil {
		return Key{}, err
	}
	return key, a.admit(r.Context(), limit{key.owner(), a.rateOf(key)}, 1, answer)
}

func (a *Admission) rateOf(key Key) Rate {
	if key.Rate != (Rate{}) {
		return key.Rate
	}
	return a.Limits.Load().Key
}
