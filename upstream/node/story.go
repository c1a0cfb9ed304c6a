package node

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// The node answers 500 to every failure, so only the text tells them apart.
// The first row whose text occurs decides. Rows whose texts quote the caller's
// input come first, lest that input choose the row; "failed to load state"
// stands before "does not exist", which it contains.
//
// testdata/failures.jsonl holds the recordings of a real node behind each row. A name that begins with source_ is of
// an answer that was written after the source of a newer release.
var failures = []struct {
	text   string
	reason Reason
}{
	{"illegal base64 data", BadInput},    // a page key, since Base64Keys
	{"decode `", BadInput},               // a parameter of the wrong type
	{"code = InvalidArgument", BadInput}, // an empty address, a bad denom, an unknown status
	{"strconv.", BadInput},               // a height in the path that is no number
	{"failed to load state at height", Pruned},
	{"cannot query with height in the future", FutureHeight},
	{"cannot query with height < 0", BadInput},
	{"code = NotFound", NotFound},
	{"not found", NotFound},
	{"does not exist", NotFound},
	{"no delegation for (address, validator) tuple", NotFound},
	{"hex string", BadInput}, // without 0x, of odd length, invalid
	{"address max length is", BadInput},
	{"either offset or key is expected", BadInput},
}

// classify says what a failure of the node means by its text.
func classify(text string) Reason {
	if i := row(text); i >= 0 {
		return failures[i].reason
	}
	return Other
}

// row is the index of the row that decides, -1 for none.
func row(text string) int {
	for i, f := range failures {
		if strings.Contains(text, f.text) {
			return i
		}
	}
	return -1
}

// latest is how a refusal for a height that is not kept names the newest one.
var latest = regexp.MustCompile(`\(latest height: (\d+)\)`)

// latestIn is the newest height that a refusal names, 0 for none.
func latestIn(reason Reason, text string) int64 {
	if reason != Pruned {
		return 0
	}
	if named := latest.FindStringSubmatch(text); named != nil {
		if height, err := strconv.ParseInt(named[1], 10, 64); err == nil {
			return height
		}
	}
	return 0
}

// noRoute is the page of a node that does not have the path. No handler ran, so there is no envelope.
const noRoute = "404 page not found"

// understand reads a whole answer: the reason and the node's text. ok is false
// for what a node does not say, such as another server's error page.
func understand(status int, body []byte) (reason Reason, text string, ok bool) {
	said, ok := enveloped(body)
	switch {
	case status == http.StatusNotFound && bytes.HasPrefix(body, []byte(noRoute)):
		return NotFound, "the chain node has no such path", true
	case !ok:
		return Other, "", false
	case status == http.StatusOK:
		return OK, "", true
	case status >= http.StatusBadRequest:
		return classify(said), said, true
	default:
		return Other, "", false
	}
}

// enveloped tells the node's {"code":200,"msg":...,"error":""} from other JSON, and gives its error. It reads the
// body once: most of it is msg.
func enveloped(body []byte) (failure string, ok bool) {
	all, ok := jsontext.Members(body, "code", "error", "msg")
	if !ok {
		return "", false
	}
	code, text := gjson.ParseBytes(all[0]), gjson.ParseBytes(all[1])
	return text.Str, code.Type == gjson.Number && text.Type == gjson.String && all[2] != nil
}

func readStory(r *http.Response, body []byte, asked int64) (*Answer, bool) {
	reason, text, ok := understand(r.StatusCode, body)
	return &Answer{
		Status: reason.Status(), NodeStatus: r.StatusCode, Body: body,
		Text: text, Reason: reason, Height: asked, Latest: latestIn(reason, text),
	}, ok
}

func storyRefusal(text string) []byte {
	return fmt.Appendf(nil, `{"code":500,"msg":null,"error":%q}`+"\n", text)
}

// sounds tells whether the node reads something else at a height. A height is probed once.
func (e *endpoint) sounds(ctx context.Context, r Request, height int64) bool {
	if r.Path == e.client.protocol.probe {
		return false
	}
	if height > 0 && e.sound.Load() == height {
		return true
	}
	sound, _ := e.readable(ctx, height)
	if sound {
		e.sound.Store(height)
	}
	return sound
}
