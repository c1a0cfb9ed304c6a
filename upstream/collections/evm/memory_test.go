package evm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAnswerBeyondFreeMemoryIsRefused(t *testing.T) {
	memory := account.New(1<<20, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4<<20))
	}))
	defer server.Close()
	c := &client{url: server.URL, http: server.Client(), secret: upstream.NewRedactor(nil), maxBody: 64 << 20, memory: memory.Upstream()}
	_, err := c.call(t.Context(), time.Minute, Call{Method: "eth_getLogs"})
	if err == nil || !strings.Contains(err.Error(), "exceeds the free memory") || memory.Used() != 0 {
		t.Errorf("error = %v with %d bytes reserved, want a refusal and 0", err, memory.Used())
	}
}

// answerAll answers each call of a batch with a text of a length.
func answerAll(length int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answers := []string{}
		for i, call := range gjson.ParseBytes(body).Array() {
			result := map[string]string{"eth_blockNumber": "0x64", "eth_chainId": "0x1"}[call.Get("method").Str]
			answers = append(answers, fmt.Sprintf(`{"id":%d,"result":"%s"}`, i, cmp.Or(result, strings.Repeat("x", length))))
		}
		text := strings.Join(answers, ",")
		if body[0] == '[' {
			text = "[" + text + "]"
		}
		_, _ = io.WriteString(w, text)
	}
}

func TestKeptAnswersAreReservedUntilWorkEnds(t *testing.T) {
	memory := account.New(1<<20, nil)
	server := httptest.NewServer(answerAll(100_000))
	defer server.Close()
	p := expect.Value(NewPool(Options{Endpoints: []string{server.URL}, ChainID: 1, Memory: memory.Upstream(), Pause: time.Millisecond}))(t)
	defer p.Close()
	read := func(s *Session, n int) error {
		_, _, err := s.AtHeadOnce(t.Context(), 1, Call{Method: "one", Params: []any{n}}, Call{Method: "two", Params: []any{n}})
		return err
	}
	retried := false
	expect.NoError(t, p.Try(t.Context(), func(s *Session) error {
		expect.NoError(t, read(s, 0))
		if used := memory.Used(); used < 200_000 || used > 201_000 {
			t.Errorf("reserved bytes with two answers = %d, want their length", used)
		}
		if retried {
			return nil
		}
		retried = true
		return Contradiction("a doubt").Doubting(Call{Method: "one", Params: []any{0}})
	}))
	expect.Equal(t, memory.Used(), 0, "reserved bytes after the work")

	var failures []error
	err := p.Try(t.Context(), func(s *Session) error {
		switch len(failures) {
		case 0: // more than the 768 KiB of upstreams
			var err error
			for n := 0; err == nil && n < 10; n++ {
				err = read(s, n)
			}
			failures = append(failures, err)
			return err
		case 1:
			expect.NoError(t, p.Trouble(0))
			failures = append(failures, read(s, 99))
		}
		return nil
	})
	if err != nil || !errors.Is(failures[0], account.ErrFull) || failures[1] != nil {
		t.Errorf("errors of work that has no memory, and then of its retry = %v (%v), want only %v", failures, err, account.ErrFull)
	}
	expect.Equal(t, memory.Used(), 0, "reserved bytes after the work that has no memory")
}
