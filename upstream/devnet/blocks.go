package devnet

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// cometLines are named JSON texts of CometBFT. ${name} stands for a value or for another text.
//
//go:embed comet.txt
var cometLines string

var cometTexts = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(cometLines) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = text
	}
	return all
}()

// render returns a text with the values of block h; own takes precedence over them.
func (c *chain) render(text string, h int64, own map[string]string) json.RawMessage {
	return json.RawMessage(os.Expand(cometTexts[text], func(name string) string {
		value, given := own[name]
		_, nested := cometTexts[name]
		switch {
		case given:
			return value
		case nested:
			return string(c.render(name, h, own))
		}
		return c.value(name, h)
	}))
}

// value returns the value of a name in all texts about block h.
func (c *chain) value(name string, h int64) string {
	switch name {
	case "chain":
		return c.id
	case "height":
		return fmt.Sprint(h)
	case "below":
		return fmt.Sprint(h - 1)
	case "next":
		return fmt.Sprint(h + 1)
	case "time":
		return c.blockTime(h).Format(time.RFC3339Nano)
	case "last_block_id":
		return string(c.render("block_id", h-1, nil))
	}
	var texts []string
	switch what, form, hash := strings.Cut(name, "_hash"); {
	case !hash: // a list of transactions or results
		for _, t := range c.transactions(h) {
			texts = append(texts, map[string]string{"txs": `"` + state.Base64(t.Raw) + `"`, "results": t.Result}[name])
		}
		return strings.Join(texts, ",")
	case form == "_before":
		return fmt.Sprintf("%X", c.hash(what, h-1))
	case form == "_base64":
		return state.Base64(c.hash(what, h))
	default:
		return fmt.Sprintf("%X", c.hash(what, h))
	}
}

// transaction returns the only transaction of a block. On Story it carries a block of the execution client, as
// MsgExecutionPayload does, but only that block's hash and number.
func (c *chain) transaction(h int64) []byte {
	hash := c.hash("transaction", h)
	if c.cosmos != nil {
		return hash
	}
	payload := protofield.Append(nil, 1, hash, 7, max(0, c.evmStart+h-c.first))
	message := protofield.Append(nil, 1, "story1v9nlyfvy3r3l2nrhxmhuxwxk2e2yqpfhnzpcvy", 4, payload)
	wrapped := protofield.Append(nil, 1, "/story.evmengine.v1.types.MsgExecutionPayload", 2, message)
	return protofield.Append(nil, 1, protofield.Append(nil, 1, wrapped))
}
