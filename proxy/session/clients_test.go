package session

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/proxy/limits"
)

func TestNotifiedBlockIsKnownWhileClientListens(t *testing.T) {
	c := NewClients(limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), nil), false)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	epoch := int64(1)
	check := func(height int64, givenUp bool) {
		t.Helper()
		if gotHeight, gotGivenUp := c.NotifiedBlock(r, epoch); gotHeight != height || gotGivenUp != givenUp {
			t.Errorf("NotifiedBlock = %d, %v, want %d, %v", gotHeight, gotGivenUp, height, givenUp)
		}
	}
	check(0, false)
	first, second := c.Listen(r), c.Listen(r)
	first.Announce(epoch, 5)
	check(5, false)
	c.GiveUpOn(r, epoch, 5)
	check(5, true)
	second.Announce(epoch, 6)
	check(6, false)
	first.Close()
	check(6, false)
	epoch++ // a rollback
	check(0, false)
	second.Announce(epoch, 4)
	check(4, false)
	second.Close()
	check(0, false)
}
