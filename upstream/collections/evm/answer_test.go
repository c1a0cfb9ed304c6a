package evm

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEachCallGetsOneAnswer(t *testing.T) {
	c := &client{secret: upstream.NewRedactor(nil)}
	for name, body := range map[string]string{
		"first repeated, second missing": `[{"id":0,"result":"0x1"},{"id":0,"result":"0x1"}]`,
		"first repeated":                 `[{"id":0,"result":"0x1"},{"id":1,"result":"0x1"},{"id":0,"result":"0x2"}]`,
		"first missing":                  `[{"id":1,"result":"0x1"}]`,
		"too deeply nested":              strings.Repeat("[", 16<<20),
		"one too many":                   `[{"id":0,"result":"0x1"},{"id":1,"result":"0x1"},{"id":9,"result":"0x1"}]`,
		"unknown id":                     `[{"id":0,"result":"0x1"},{"id":2,"result":"0x1"}]`,
	} {
		if answers, err := c.sortAnswers([]byte(body), 2); err == nil {
			t.Errorf("sortAnswers, %s = %v, nil, want an error", name, answers)
		}
	}
	if answers, _ := c.sortAnswers([]byte(`[{"id":0,"result":"0x1"},{"id":0,"result":"0x2"}]`), 2); len(answers) > 0 {
		t.Errorf("sortAnswers of two answers to a call = %v, want none", answers)
	}
	answers := expect.Value(c.sortAnswers([]byte(`[{"id":1,"result":"0x1"},{"id":0,"result":"0x0"}]`), 2))(t)
	if answers[0].Result.Str != "0x0" || answers[1].Result.Str != "0x1" {
		t.Errorf("sortAnswers = %v, want 0x0 and 0x1", answers)
	}
	_, err := c.sortAnswers([]byte(`[{"id":0,"error":{"code":-32600,"message":"batch too large"}}]`), 4)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Code != -32600 || !f.permanent {
		t.Errorf("error after geth's refusal of a batch = %v, want a permanent failure with code -32600", err)
	}
}

func TestObjectAnswersOnlyASingleCall(t *testing.T) {
	c := &client{secret: upstream.NewRedactor(nil)}
	if answers, err := c.sortAnswers([]byte(`{"id":0,"result":"0x7"}`), 1); err != nil || len(answers) != 1 || answers[0].Result.Str != "0x7" {
		t.Errorf("answer to one call = %v, %v; want 0x7", answers, err)
	}
	for body, want := range map[string]string{
		`{"id":0,"result":"0x7"}`: "answered none of 2 calls",
		`{"id":null,"error":{"code":-32005,"message":"too many calls"}}`: "too many calls",
	} {
		if answers, err := c.sortAnswers([]byte(body), 2); answers != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s for two calls = %v, %v; want an error with %q", body, answers, err, want)
		}
	}
}

func TestOnlyUnsupportedCallsFailForGood(t *testing.T) {
	c := &client{secret: upstream.NewRedactor(nil)}
	for code, permanent := range map[string]bool{"-32600": true, "-32601": true, "-32602": false, "-32000": false, "3": false} {
		answers := expect.Value(c.sortAnswers([]byte(`[{"id":0,"error":{"code":`+code+`,"message":"no"}},{"id":1,"result":"0x1"}]`), 2))(t)
		if f := answers[0].Err; f == nil || f.permanent != permanent {
			t.Errorf("failure with code %s = %+v, want permanent: %t", code, f, permanent)
		}
	}
}

func TestResultsFailsIfAnAnswerFailed(t *testing.T) {
	one, refused, silent := Answer{Result: gjson.Parse(`"0x1"`)}, Answer{Err: &Failure{Reason: Refused, err: errors.New("refused")}}, errors.New("silent")
	for name, tt := range map[string]struct {
		answers []Answer
		err     error
		results int
		want    error
	}{
		"answers":               {[]Answer{one, one}, nil, 2, nil},
		"one refusal":           {[]Answer{one, refused}, nil, 0, refused.Err},
		"answers with an error": {[]Answer{one}, silent, 0, silent},
	} {
		results, err := Results(tt.answers, tt.err)
		if len(results) != tt.results || !errors.Is(err, tt.want) {
			t.Errorf("Results, %s = %d results, %v; want %d, %v", name, len(results), err, tt.results, tt.want)
		}
	}
}
