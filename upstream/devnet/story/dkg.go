package story

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// The simulated key generation: a round begins every roundBlocks blocks and is active from its fourth stage on.
const (
	roundBlocks  = 300
	stageBlocks  = 50
	active       = 4
	committee    = 3
	vaults       = 1000 // partial decryptions exist of the vaults below this number
	requesterLen = 65
)

type dkgNetwork struct {
	Round           uint32   `json:"round,omitempty"`
	StartHeight     int64    `json:"start_block_height,string,omitempty"`
	StartHash       []byte   `json:"start_block_hash,omitempty"`
	ActiveSet       []string `json:"active_val_set,omitempty"`
	Total           int      `json:"total,omitempty"`
	Threshold       int      `json:"threshold,omitempty"`
	Stage           int64    `json:"stage,omitempty"`
	IsResharing     bool     `json:"is_resharing,omitempty"`
	GlobalPublicKey []byte   `json:"global_public_key,omitempty"`
	PublicCoeffs    [][]byte `json:"public_coeffs,omitempty"`
}

type dkgRegistration struct {
	Round          uint32 `json:"round,omitempty"`
	Validator      string `json:"validator_addr,omitempty"`
	Index          int    `json:"index,omitempty"`
	DKGPubKey      []byte `json:"dkg_pub_key,omitempty"`
	CommPubKey     []byte `json:"comm_pub_key,omitempty"`
	PubKeyShare    []byte `json:"pub_key_share,omitempty"`
	EnclaveReport  []byte `json:"enclave_report,omitempty"`
	Status         int    `json:"status,omitempty"`
	CodeCommitment []byte `json:"code_commitment,omitempty"`
	EnclaveType    []byte `json:"enclave_type,omitempty"`
}

type cdrPartial struct {
	Validator        string `json:"validator,omitempty"`
	Round            uint32 `json:"round,omitempty"`
	PID              int    `json:"pid,omitempty"`
	EncryptedPartial []byte `json:"encrypted_partial,omitempty"`
	EphemeralPubKey  []byte `json:"ephemeral_pub_key,omitempty"`
	PubShare         []byte `json:"pub_share,omitempty"`
	Label            []byte `json:"label,omitempty"`
	Ciphertext       []byte `json:"ciphertext,omitempty"`
}

type cdrPartials struct {
	Round        uint32       `json:"round,omitempty"`
	Submissions  []cdrPartial `json:"submissions"`
	Ciphertext   []byte       `json:"ciphertext,omitempty"`
	Threshold    int          `json:"threshold,omitempty"`
	ThresholdMet bool         `json:"threshold_met,omitempty"`
}

// dkgRoutes are the paths of key generation.
func (c *Chain) dkgRoutes() map[string]state.Handler {
	return map[string]state.Handler{
		"/dkg/latest_active":          c.dkgLatest,
		"/dkg/dkg_network":            c.dkgOfRound,
		"/dkg/global_public_key":      c.dkgPublicKey,
		"/dkg/registrations":          func(q *state.Query) (string, error) { return c.dkgRegistrations(q, 0) },
		"/dkg/registrations/verified": func(q *state.Query) (string, error) { return c.dkgRegistrations(q, 1) },
		"/dkg/cdr_partials":           c.cdrPartials,
	}
}

// network is a round as of a height; false where it has not begun.
func (c *Chain) network(q *state.Query, round uint32) (dkgNetwork, bool) {
	start := int64(round)*roundBlocks - roundBlocks + 1
	if round == 0 || start > q.Height {
		return dkgNetwork{}, false
	}
	n := dkgNetwork{
		Round: round, StartHeight: start, StartHash: c.dkgBytes("hash", round, 0), Total: committee, Threshold: committee/2 + 1,
		Stage: min(1+(q.Height-start)/stageBlocks, active), IsResharing: round > 1,
	}
	for _, v := range c.Validators[:committee] {
		n.ActiveSet = append(n.ActiveSet, v.Operator)
	}
	if n.Stage == active {
		n.GlobalPublicKey = c.dkgBytes("coefficient", round, 0)
		n.PublicCoeffs = [][]byte{n.GlobalPublicKey, c.dkgBytes("coefficient", round, 1)}
	}
	return n, true
}

// latest is the newest active round.
func (c *Chain) latest(q *state.Query) (dkgNetwork, error) {
	for round := uint32(q.Height/roundBlocks) + 1; round > 0; round-- { //nolint:gosec // far below
		if n, ok := c.network(q, round); ok && n.Stage == active {
			return n, nil
		}
	}
	return dkgNetwork{}, status.Error(codes.NotFound, "no active DKG network")
}

func (c *Chain) dkgLatest(q *state.Query) (string, error) {
	n, err := c.latest(q)
	return member("network", n, err)
}

func (c *Chain) dkgOfRound(q *state.Query) (string, error) {
	round, err := number32(q, "round")
	if err != nil {
		return "", err
	}
	n, ok := c.network(q, round)
	if !ok {
		err = status.Errorf(codes.NotFound, "collections: not found: key '%d' of type github.com/cosmos/gogoproto/story.dkg.v1.types.DKGNetwork", round)
	}
	return member("network", n, err)
}

func (c *Chain) dkgPublicKey(q *state.Query) (string, error) {
	n, err := c.latest(q)
	return member("public_key", hex.EncodeToString(n.GlobalPublicKey), err)
}

// dkgRegistrations are those of a round that have a status; 0 is any.
func (c *Chain) dkgRegistrations(q *state.Query, only int) (string, error) {
	round, err := number32(q, "round")
	if err != nil {
		return "", err
	}
	var all []dkgRegistration
	if n, ok := c.network(q, round); ok {
		for i, validator := range n.ActiveSet {
			all = append(all, c.registration(n, i, validator))
		}
	}
	if len(all) > 0 && only > 0 && all[0].Status != only {
		all = nil
	}
	return member("registrations", all, nil)
}

func (c *Chain) registration(n dkgNetwork, i int, validator string) dkgRegistration {
	r := dkgRegistration{
		Round: n.Round, Validator: validator, Index: i + 1, DKGPubKey: c.dkgBytes("dkg key", n.Round, i), CommPubKey: c.dkgBytes("comm key", n.Round, i),
		EnclaveReport: c.dkgBytes("report", n.Round, i), Status: 1, CodeCommitment: c.dkgBytes("code", 0, 0), EnclaveType: append(make([]byte, 31), 1),
	}
	if n.Stage == active {
		r.Status, r.PubKeyShare = 2, c.dkgBytes("share", n.Round, i)
	}
	return r
}

func (c *Chain) cdrPartials(q *state.Query) (string, error) {
	uuid, err := number32(q, "uuid")
	if err == nil {
		err = checkRequester(q.Var("requester_pub_key_hex"))
	}
	if err == nil && uuid == 1<<32-1 {
		err = errors.New("uuid out of range")
	}
	if err != nil {
		return "", err
	}
	n, err := c.latest(q)
	if err != nil || uuid >= vaults {
		return "", status.Error(codes.NotFound, "partial decryption submission not found")
	}
	group := cdrPartials{Round: n.Round, Ciphertext: c.dkgBytes("ciphertext", uuid, 0), Threshold: n.Threshold, ThresholdMet: true}
	label := append(make([]byte, 28), byte(uuid>>24), byte(uuid>>16), byte(uuid>>8), byte(uuid)) //nolint:gosec // its bytes
	for i, validator := range n.ActiveSet {
		group.Submissions = append(group.Submissions, cdrPartial{
			Validator: validator, Round: n.Round, PID: i + 1, EncryptedPartial: c.dkgBytes("partial", uuid, i), EphemeralPubKey: c.dkgBytes("ephemeral", uuid, i),
			PubShare: c.dkgBytes("share", n.Round, i), Label: label, Ciphertext: group.Ciphertext,
		})
	}
	return member("submissions", []cdrPartials{group}, nil)
}

func checkRequester(text string) error {
	if len(text) >= 2 && strings.EqualFold(text[:2], "0x") {
		text = text[2:]
	}
	key, err := hex.DecodeString(text)
	switch {
	case text == "":
		return errors.New("requester_pub_key_hex is required")
	case err != nil:
		return fmt.Errorf("requester_pub_key_hex must be valid hex: %w", err)
	case len(key) != requesterLen:
		return errors.New("requester_pub_key_hex must decode to an uncompressed secp256k1 public key (65 bytes)")
	}
	return nil
}

// number32 reads a parameter as the node does; an absent one is 0.
func number32(q *state.Query, name string) (uint32, error) {
	text := q.Var(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("decode `server.request` query err: 1 error(s) decoding:\n\n* error decoding '%s': %w", name, err)
	}
	return uint32(n), nil
}

func (c *Chain) dkgBytes(what string, n uint32, i int) []byte {
	d := state.Digest(c.Seed, "dkg "+what, int64(n)<<8+int64(i))
	return d[:]
}

// member is an object with one member.
func member(name string, value any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{name: value})
	return string(text), err
}
