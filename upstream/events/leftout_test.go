package events_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// messages lets the feed read block 101, and returns the kinds and values of the events that a subscriber receives.
func (w *world) messages() (kinds []string, values []json.RawMessage) {
	w.t.Helper()
	awake := make(chan struct{}, 1)
	s := w.feed.Subscriber(events.Client{Limit: 5, Wake: func() { awake <- struct{}{} }})
	expect.NoError(w.t, s.Subscribe(all, nil))
	synctest.Wait()
	w.move(101, 0)
	time.Sleep(time.Minute)
	for m, ok := s.Next(w.t.Context()); ok; m, ok = s.Next(w.t.Context()) {
		var sent struct {
			Data struct{ Value json.RawMessage }
		}
		if err := json.Unmarshal(append([]byte("{"), m.Event.Data()[:len(m.Event.Data())-1]...), &sent); err != nil {
			w.t.Errorf("data of %s is invalid JSON: %v\n%s", m.Event.Kind, err, m.Event.Data())
		}
		kinds, values = append(kinds, m.Event.Kind), append(values, sent.Data.Value)
		synctest.Wait()
	}
	return kinds, values
}

func TestEventsThatCannotBeBuiltAreOmittedAndCounted(t *testing.T) {
	const key = `"pub_key":{"Sum":{"type":"tendermint.crypto.PublicKey_Ed25519","value":{"ed25519":"AAE="}}}`
	for name, tt := range map[string]struct{ updates, result, leftOut string }{
		"a key of an unknown type":     {`[{` + key + `,"power":"1"},{"pub_key_type":"ml_dsa_65","pub_key_bytes":"AAE=","power":"1"}]`, "", "ValidatorSetUpdates"},
		"a key in an unknown form":     {`[{"pub_key":{"Sum":{"type":"tendermint.crypto.PublicKey_Sr25519","value":{"sr25519":"AAE="}}}}]`, "", "ValidatorSetUpdates"},
		"an update without a key":      {`[{"power":"1"}]`, "", "ValidatorSetUpdates"},
		"a power that is not a number": {`[{` + key + `,"power":"1\"}"}]`, "", "ValidatorSetUpdates"},
		"updates that are not a list":  {`{"power":"1"}`, "", "ValidatorSetUpdates"},
		"a result that is null":        {"", `null`, "Tx"},
		"a result that is a text":      {"", `"}"`, "Tx"},
		"events that are not a list":   {"", `{"code":1,"events":{"type":"t"}}`, "Tx"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			registry := prometheus.NewPedanticRegistry()
			inBubble(t, 1, events.Options{Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, w *world) {
				w.txs[101], w.updates[101], w.results[raw(101, 0)] = 2, tt.updates, tt.result
				got, _ := w.messages()
				want := "NewBlock NewBlockHeader NewBlockEvents Tx"
				if tt.leftOut != "Tx" {
					want += " Tx"
				}
				if strings.Join(got, " ") != want {
					t.Errorf("kinds of events = %v, want %s", got, want)
				}
			})
			expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_events_left_out_total"), map[string]float64{tt.leftOut: 1}, "events left out")
			expect.Equal(t, log.Count("left out events of a block"), 1, "log lines (%s)", log.String())
		})
	}
}

// CometBFT derives the expected addresses from these keys.
func TestValidatorUpdatesOfAllReleases(t *testing.T) {
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	const long = key + "gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5f"
	old := func(kind, field, key string) string {
		return fmt.Sprintf(`{"pub_key":{"Sum":{"type":"tendermint.crypto.PublicKey_%s","value":{%q:%q}}},"power":"5"}`, kind, field, key)
	}
	since1 := func(kind, key string) string {
		return fmt.Sprintf(`{"pub_key_type":%q,"pub_key_bytes":%q,"power":"5"}`, kind, key)
	}
	for name, k := range map[string]struct{ address, kind, key, old, since1 string }{
		"ed25519":   {"630DCD2966C4336691125448BBB25B4FF412A49C", "tendermint/PubKeyEd25519", key + "=", old("Ed25519", "ed25519", key+"="), since1("ed25519", key+"=")},
		"secp256k1": {"C31B1D87D352C7F17BC1E24942B05BDD4C3387EA", "tendermint/PubKeySecp256k1", key + "g", old("Secp256K1", "secp256k1", key+"g"), since1("secp256k1", key+"g")},
		"BLS12-381": {"08359B108FA567F5DCF319FA3434DA6ABBC1D595", "cometbft/PubKeyBls12_381", long, old("Bls12381", "bls12381", long), since1("bls12_381", long)},
	} {
		for release, update := range map[string]string{"before 1.0": k.old, "since 1.0": k.since1} {
			inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
				w.updates[101] = "[" + update + "]"
				kinds, values := w.messages()
				want := fmt.Sprintf(`{"validator_updates":[{"address":%q,"pub_key":{"type":%q,"value":%q},"voting_power":"5","proposer_priority":"0"}]}`, k.address, k.kind, k.key)
				if got := string(values[len(values)-1]); kinds[len(kinds)-1] != "ValidatorSetUpdates" || got != want {
					t.Errorf("%s %s: last event = %s %s\nwant ValidatorSetUpdates %s", name, release, kinds[len(kinds)-1], got, want)
				}
			})
		}
	}
}
