package transport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// named starts a server that responds with its name. A request for /held responds once held is closed.
func named(t *testing.T, name string, held <-chan struct{}) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/held" {
			<-held
		}
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestOldConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"short requests": "", "long requests": strings.Repeat("x", maxSent+1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{})
			from := porttest.NewMoving(t, named(t, "old", held))
			base := "http://" + from.Address
			tr := New(expect.Value(url.Parse(base))(t), Options{Dial: patience, Idle: patience, MaxIdle: 4, MaxAge: 50 * time.Millisecond})
			t.Cleanup(tr.CloseIdleConnections)
			mustSend(t, tr, http.MethodPost, base, body, "old")
			inProgress := make(chan string, 1)
			go func() {
				_, text, err := send(t.Context(), tr, http.MethodPost, base+"/held", body)
				if err != nil {
					text = err.Error()
				}
				inProgress <- text
			}()
			expect.Eventually(t, "the request in progress has a connection", func() bool {
				mustSend(t, tr, http.MethodPost, base, body, "old")
				return from.Accepted() >= 2
			})
			from.Move(named(t, "new", nil))
			expect.Eventually(t, "a response of the new server", func() bool {
				_, text, err := send(t.Context(), tr, http.MethodPost, base, body)
				expect.NoError(t, err)
				return text == "new"
			})
			close(held)
			expect.Equal(t, <-inProgress, "old", "response to the request in progress")
		})
	}
}

func TestYoungConnectionIsReused(t *testing.T) {
	t.Parallel()
	from := porttest.NewMoving(t, named(t, "old", nil))
	base := "http://" + from.Address
	tr := newTransport(t, base, patience)
	mustSend(t, tr, http.MethodGet, base, "", "old")
	from.Move(named(t, "new", nil))
	mustSend(t, tr, http.MethodGet, base, "", "old")
}

func TestAgesDiffer(t *testing.T) {
	ages := map[time.Duration]bool{}
	for range 100 {
		age := Age(DefaultMaxAge)
		if age < DefaultMaxAge || age > DefaultMaxAge/4*5 {
			t.Errorf("Age = %v, want between %v and a quarter more", age, DefaultMaxAge)
		}
		ages[age] = true
	}
	if len(ages) < 2 {
		t.Errorf("a hundred ages are all equal, want them to differ")
	}
}
