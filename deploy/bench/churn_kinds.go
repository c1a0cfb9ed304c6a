package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// kind is one of the ways in which clients behave. Each visit is on a
// connection of its own, which the visitor closes.
type kind struct {
	name   string
	weight int
	visit  func(v *visitor, ctx context.Context)
}

var kinds = []kind{
	{"of the same questions", 30, polling(nil)},
	{"encoded", 10, polling([]string{"gzip", "zstd", "br", "gzip, deflate, br, zstd"})},
	{"having the answer", 10, (*visitor).unchanged},
	{"of ever new questions", 15, (*visitor).anew},
	{"of pages of collections", 12, (*visitor).pages},
	{"of bad input", 10, (*visitor).badInput},
	{"waiting for a block", 3, (*visitor).waiting},
	{"leaving within the answer", 8, (*visitor).leaving},
	{"idle", 2, (*visitor).idle},
}

// kindOf draws one by weight.
func kindOf(r *rand.Rand) kind {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := r.IntN(sum)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("unreachable")
}

// polling asks the usual questions, in one of the codings if there are any.
func polling(codings []string) func(*visitor, context.Context) {
	return func(v *visitor, ctx context.Context) {
		var header http.Header
		if codings != nil {
			header = http.Header{"Accept-Encoding": {codings[v.random.IntN(len(codings))]}}
		}
		for v.stays(ctx, 10) {
			v.ask(ctx, asked{path: v.usual(), header: header}, http.StatusOK)
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
	path, tag := v.usual(), ""
	for v.stays(ctx, 10) {
		a := v.ask(ctx, asked{path: path, header: http.Header{"If-None-Match": {tag}}}, http.StatusOK, http.StatusNotModified)
		tag = a.header.Get("Etag")
	}
}

// anew asks what hardly anybody has asked before.
func (v *visitor) anew(ctx context.Context) {
	for v.stays(ctx, 10) {
		if v.random.IntN(2) == 0 {
			v.ask(ctx, asked{path: "/bank/balances/" + v.address() + "/by_denom?denom=stake"}, http.StatusOK)
			continue
		}
		height := fmt.Sprint(10 + v.random.IntN(990)) // the devnet begins at 1000
		v.ask(ctx, asked{
			path: "/staking/validators/" + v.operators[v.random.IntN(len(v.operators))], header: http.Header{"X-Block-Height": {height}},
		}, http.StatusOK)
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
		v.ask(ctx, asked{method: http.MethodPost, path: collectionsPath, body: body}, http.StatusOK)
	}
}

const collectionsPath = "/api/v4/collections"

func (v *visitor) badInput(ctx context.Context) {
	for v.stays(ctx, 5) {
		refused := []asked{
			{path: "/staking/validators/" + v.address() + "f"},
			{path: "/staking/validators?pagination.limit=many"},
			{path: "/staking/validators?pagination.key=%zz"},
			{path: fmt.Sprintf("/no/such/path/%d", v.random.Uint64())},
			{path: "/staking/validators?x=" + strings.Repeat("x", 9000)},
			{path: "/staking/pool", header: http.Header{"X-Block-Height": {"-1"}}},
			{path: "/staking/pool", header: http.Header{"X-Block-Height": {"900000000"}}},
			{method: http.MethodDelete, path: "/staking/pool"},
			{method: http.MethodPost, path: collectionsPath, body: `{"orderBy":"name","page":1}`},
			{method: http.MethodPost, path: collectionsPath, body: `{"where":`},
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
	now := v.ask(ctx, asked{path: "/staking/pool"}, http.StatusOK)
	next := http.Header{"X-Min-Block-Height": {fmt.Sprint(now.height() + 1)}}
	if v.random.IntN(2) == 0 {
		v.ask(ctx, asked{path: "/staking/pool", header: next}, http.StatusOK)
		return
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	v.abandon(short, asked{path: "/staking/pool", header: next})
}

// idle holds a connection that nothing is asked on.
func (v *visitor) idle(ctx context.Context) {
	v.raw(ctx, "", func() { pause(ctx, time.Duration(1+v.random.IntN(3))*time.Second) })
}

// leaving closes the connection without a goodbye: within the request, before
// the answer or within it.
func (v *visitor) leaving(ctx context.Context) {
	big := fmt.Sprintf("GET /staking/validators/%s/delegations?pagination.limit=%d HTTP/1.1\r\nHost: bench\r\n\r\n", v.operators[v.random.IntN(10)], 500+v.random.IntN(500))
	requests := []string{
		big, big, big[:len(big)-2], "POST " + collectionsPath + " HTTP/1.1\r\nHost: bench\r\nContent-Length: 1000\r\n\r\n{", "\x16\x03\x01\x02\x00\x01\x00", // TLS spoken here
	}
	v.raw(ctx, requests[v.random.IntN(len(requests))], func() { pause(ctx, time.Duration(v.random.IntN(20))*time.Millisecond) })
}
