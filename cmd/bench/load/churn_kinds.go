package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// visitor is a client for as long as it stays, on a connection of its own.
type visitor struct {
	*churned
	*kind
	random *rand.Rand
	conn   clients.Conn
	asks   int
}

// stays pauses between two requests, and says whether there is to be another.
func (v *visitor) stays(ctx context.Context, most int) bool {
	v.asks++
	return rig.Pause(ctx, time.Duration(v.random.IntN(40))*time.Millisecond) && v.random.IntN(most) > 0 || v.asks == 1
}

// ask sends a request and counts what came of it.
func (v *visitor) ask(ctx context.Context, request []byte, want ...int) clients.Response {
	got, err := v.conn.Do(ctx, request)
	unexpected := ""
	switch {
	case ctx.Err() != nil:
		return got
	case err != nil:
		unexpected = fmt.Sprintf("%.80s: %v", request, err)
	case !slices.Contains(want, got.Status):
		unexpected = fmt.Sprintf("%.80s: status %d", request, got.Status)
	}
	v.count(unexpected)
	return got
}

func get(path string, headers ...string) []byte {
	return clients.Request(http.MethodGet, path, "", headers...)
}

const collectionsPath = "/api/v4/collections"

func post(body string) []byte {
	return clients.Request(http.MethodPost, collectionsPath, body, "Content-Type: application/json")
}

// kind is one of the ways in which clients behave.
type kind struct {
	name   string
	weight int
	visit  func(v *visitor, ctx context.Context)

	requests, unexpected int
	first                string // unexpected thing
}

func kindsOfClients() []*kind {
	return []*kind{
		{name: "encoded", weight: 10, visit: polling("gzip", "zstd", "br", "gzip, deflate, br, zstd")},
		{name: "having the answer", weight: 10, visit: (*visitor).unchanged},
		{name: "idle", weight: 2, visit: (*visitor).idle},
		{name: "leaving within the answer", weight: 8, visit: (*visitor).leaving},
		{name: "of bad input", weight: 10, visit: (*visitor).badInput},
		{name: "of ever new questions", weight: 15, visit: (*visitor).anew},
		{name: "of pages of collections", weight: 12, visit: (*visitor).pages},
		{name: "of the same questions", weight: 30, visit: polling("")},
		{name: "waiting for a block", weight: 3, visit: (*visitor).waiting},
	}
}

// polling asks the usual questions, in one of the codings.
func polling(codings ...string) func(*visitor, context.Context) {
	return func(v *visitor, ctx context.Context) {
		coding := "Accept-Encoding: " + codings[v.random.IntN(len(codings))]
		for v.stays(ctx, 10) {
			v.ask(ctx, get(v.usual(), coding), http.StatusOK)
		}
	}
}

// usual is a question that many ask.
func (v *visitor) usual() string {
	operator := v.operators[v.random.IntN(10)]
	paths := []string{
		"/staking/validators", "/staking/pool", "/staking/params", "/staking/validators?status=bonded&pagination.limit=20",
		"/staking/validators/" + operator, "/staking/validators/" + operator + "/delegations?pagination.limit=20",
	}
	return paths[v.random.IntN(len(paths))]
}

func (v *visitor) unchanged(ctx context.Context) {
	path, tag := v.usual(), `"none"`
	for v.stays(ctx, 10) {
		a := v.ask(ctx, get(path, "If-None-Match: "+tag), http.StatusOK, http.StatusNotModified)
		tag = a.Header.Get("Etag")
	}
}

// anew asks what hardly anybody has asked before.
func (v *visitor) anew(ctx context.Context) {
	for v.stays(ctx, 10) {
		if v.random.IntN(2) == 0 {
			v.ask(ctx, get("/bank/balances/"+v.address()+"/by_denom?denom=stake"), http.StatusOK)
			continue
		}
		height := 10 + v.random.IntN(990) // the devnet begins at 1000
		v.ask(ctx, get("/staking/validators/"+v.operators[v.random.IntN(len(v.operators))], fmt.Sprint("X-Block-Height: ", height)), http.StatusOK)
	}
}

func (v *visitor) address() string {
	return fmt.Sprintf("0x%016x%016x%08x", v.random.Uint64(), v.random.Uint64(), v.random.Uint32())
}

func (v *visitor) pages(ctx context.Context) {
	columns := []string{"updatedAt", "assetCount", "licensesCount"}
	for v.stays(ctx, 5) {
		body := fmt.Sprintf(`{"orderBy":%q,"pagination":{"offset":%d}}`, columns[v.random.IntN(3)], v.random.IntN(churnCollections))
		switch v.random.IntN(4) {
		case 0:
			body = `{}`
		case 1:
			body = fmt.Sprintf(`{"where":{"minAssetCount":%d,"collectionAddresses":[%q,%q]}}`, v.random.IntN(5), v.address(), v.address())
		}
		v.ask(ctx, post(body), http.StatusOK)
	}
}

func (v *visitor) badInput(ctx context.Context) {
	for v.stays(ctx, 5) {
		refused := [][]byte{
			get("/staking/validators/" + v.address() + "f"),
			get("/staking/validators?pagination.limit=many"),
			get("/staking/validators?pagination.key=%zz"),
			get(fmt.Sprintf("/no/such/path/%d", v.random.Uint64())),
			get("/staking/validators?x=" + strings.Repeat("x", 9000)),
			get("/staking/pool", "X-Block-Height: -1"),
			get("/staking/pool", "X-Block-Height: 900000000"),
			clients.Request(http.MethodDelete, "/staking/pool", ""),
			post(`{"orderBy":"name","page":1}`),
			post(`{"where":`),
		}
		v.ask(ctx, refused[v.random.IntN(len(refused))], badStatuses...)
	}
}

var badStatuses = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestURITooLong, http.StatusUnprocessableEntity,
}

// waiting asks for an answer of the next block, and half the time does not
// wait for it.
func (v *visitor) waiting(ctx context.Context) {
	now := v.ask(ctx, get("/staking/pool"), http.StatusOK)
	next := get("/staking/pool", fmt.Sprint("X-Min-Block-Height: ", now.Height()+1))
	if v.random.IntN(2) == 0 {
		v.ask(ctx, next, http.StatusOK)
		return
	}
	v.abandon(ctx, next, 50*time.Millisecond)
}

// abandon sends bytes on a connection of its own, waits and resets it. There is
// room for the beginning of an answer only.
func (v *visitor) abandon(ctx context.Context, text []byte, after time.Duration) {
	unexpected := ""
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", v.conn.Addr)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
		_, _ = tcp.Write(text) // the server may have closed already
		rig.Pause(ctx, after)
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	} else {
		unexpected = err.Error()
	}
	if ctx.Err() == nil {
		v.count(unexpected)
	}
}

// idle holds a connection that nothing is asked on.
func (v *visitor) idle(ctx context.Context) {
	v.abandon(ctx, nil, time.Duration(1+v.random.IntN(3))*time.Second)
}

// leaving closes the connection without a goodbye: within the request, before
// the answer or within it.
func (v *visitor) leaving(ctx context.Context) {
	big := get(fmt.Sprintf("/staking/validators/%s/delegations?pagination.limit=%d", v.operators[v.random.IntN(10)], 500+v.random.IntN(500)))
	requests := [][]byte{
		big, big, big[:len(big)-2],
		[]byte("POST " + collectionsPath + " HTTP/1.1\r\nHost: bench\r\nContent-Length: 1000\r\n\r\n{"),
		[]byte("\x16\x03\x01\x02\x00\x01\x00"), // TLS spoken here
	}
	v.abandon(ctx, requests[v.random.IntN(len(requests))], time.Duration(v.random.IntN(20))*time.Millisecond)
}
