package node

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAnswerIsUnsettledUntilNodeCanReadALaterBlock(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	for _, tt := range []struct {
		height    int64
		unsettled bool
	}{{AtTip, true}, {100, true}, {99, false}} {
		expect.Equal(t, mustFetch(t, p, Request{Height: tt.height}).Unsettled, tt.unsettled, "Unsettled at height %d with tip 100", tt.height)
	}
	n.commit(101)
	wantTip(t, p, 101)
	expect.Equal(t, mustFetch(t, p, Request{Height: 100}).Unsettled, false, "Unsettled at height 100 with tip 101")
}

func TestAnswerIsUnsettledIfTheLaterBlockCannotBeRead(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	waitForSubscription(t, p, n, nil)
	n.change(func() { n.lie = 1 })
	n.commit(100)
	wantTip(t, p, 101)
	expect.Equal(t, mustFetch(t, p, Request{Height: 100}).Unsettled, true, "Unsettled at the newest block that can be read")
}

func TestPastBlockIsReadFromNodeWithALaterOne(t *testing.T) {
	behind, ahead := newFakeNode(t, 100), newFakeNode(t, 101)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, behind, ahead)
	wantTip(t, p, 101)
	expect.EventuallyEqual(t, "both heights", func() [2]int64 { h := p.Health(); return [...]int64{h[0].Height, h[1].Height} }, [...]int64{100, 101})
	prefer(p, 0)
	if a := mustFetch(t, p, Request{Height: 100}); !isFrom(a, ahead) || a.Unsettled {
		t.Errorf("answer = %+v, want a settled one of the node with the later block", a)
	}
}

func TestAnswerOfParentIsSettledIfParentCallsItImmutable(t *testing.T) {
	n := newFakeNode(t, 100)
	control := "public, max-age=2"
	n.front = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Status", `tipcache; hit; detail="memory"`)
		if r.URL.Query().Get("x-block-height") == "90" {
			n.change(func() { w.Header().Set("Cache-Control", control) })
			w.Header().Set("X-Block-Height", "90")
		}
		fmt.Fprint(w, `{"code":200,"msg":{},"error":""}`)
	}
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	waitForParent(t, p)
	if a := mustFetch(t, p, Request{Height: 90, Query: "a=b"}); a.Height != 90 || !a.Unsettled {
		t.Errorf("answer = %+v, want an unsettled one at height 90", a)
	}
	n.change(func() { control = "public, max-age=86400, immutable" })
	expect.Equal(t, mustFetch(t, p, Request{Height: 90}).Unsettled, false, "Unsettled of an immutable answer")
}
