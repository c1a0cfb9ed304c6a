package peers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/clients"
)

// script makes a Lua script for a POST. One body costs wrk nothing per request;
// different ones a function call.
func (p *peersRun) script(l *clients.Load, c peerCase) error {
	if c.q.body == "" {
		return nil
	}
	l.Script = filepath.Join(p.Dir, "post.lua")
	if !c.vary {
		return os.WriteFile(l.Script, fmt.Appendf(nil, "wrk.method = \"POST\"\nwrk.body = %q\n", c.q.body), 0o600)
	}
	bodies := filepath.Join(p.Dir, "bodies.txt")
	if err := writeBodies(bodies, c.q.body, variants, rand.New(rand.NewPCG(rand.Uint64(), 1))); err != nil {
		return err
	}
	return os.WriteFile(l.Script, fmt.Appendf(nil, cycleScript, bodies), 0o600)
}

// cycleScript sends the lines of a file in turn.
const cycleScript = `wrk.method = "POST"
local requests, n, i = {}, 0, 0
init = function(args)
  for line in io.lines(%q) do
    n = n + 1
    requests[n] = wrk.format(nil, nil, nil, line)
  end
end
request = function()
  i = i %% n + 1
  return requests[i]
end
`

// variants is how many bodies a run cycles through: about as many as it sends.
const variants = 50_000

// writeBodies writes n spellings of a JSON object, one a line and all of one length.
func writeBodies(path, body string, n int, random *rand.Rand) error {
	var text strings.Builder
	for range n {
		text.WriteString(spelling(body, random) + "\n")
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// blanks is how many blanks a spelling has more than the body; each is one of
// two kinds, so that two spellings are hardly ever the same.
const blanks = 24

// spelling is another spelling of a JSON object: with blanks behind its brace.
func spelling(body string, random *rand.Rand) string {
	b := []byte(body[:1])
	for range blanks {
		b = append(b, " \t"[random.IntN(2)])
	}
	return string(b) + body[1:]
}
