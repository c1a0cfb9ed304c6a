package comet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// realTransaction is the transaction of Story's block 290, with block 289 of the execution client.
const realTransaction = "CuEECt4ECi0vc3RvcnkuZXZtZW5naW5lLnYxLnR5cGVzLk1zZ0V4ZWN1dGlvblBheWxvYWQSrAQKLHN0b3J5MXY5bmx5ZnZ5M3IzbDJucmh4bWh1eHd4azJlMnlxcGZobnpwY3Z5IvsDCiCJIyIAIhO8qQABb1VJCb/hjzi9Hljlb1auPt5A/P24cBIUDpVyuTAwB4QESiYth9qRtPKs44kaIBF8yjIGBg1XUh8uZgW3ckA4LhKylHHLGRqJJRvgktBmIiBW6B8XG8xVpv+DReaSwPhuW0jgG5lsrcABYi+142O0ISqAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAyIIkjIgAiE7ypAAFvVUkJv+GPOL0eWOVvVq4+3kD8/bhwOKECQICilRFQq+KA2AZaBmRldm5ldGIgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAdqIKlLLltgqg1H/OFC8pOfxCLZcbsPs48Yzp9BXz8Rda+UEgISAA=="

func TestExecutionBlock(t *testing.T) {
	for name, tt := range map[string]struct {
		txs    string
		number int64
		failed bool
	}{
		"a block of a real node":       {`["` + realTransaction + `"]`, 289, false},
		"another kind of transaction":  {`["CgA="]`, 0, true},
		"a transaction that is cut":    {`["` + realTransaction[:400] + `"]`, 0, true},
		"no transaction":               {`[]`, 0, true},
		"transactions that are absent": {`null`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				var call struct{ Params struct{ Height string } }
				if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
					t.Errorf("decode the call: %v", err)
				}
				fmt.Fprintf(w, `{"result":{"block":{"header":{"height":"%s"},"data":{"txs":%s}}}}`, call.Params.Height, tt.txs)
			})
			got, err := c.ExecutionBlock(t.Context(), 290)
			if got != tt.number || errors.Is(err, ErrNoPayload) != tt.failed {
				t.Errorf("ExecutionBlock = %d, %v; want %d, ErrNoPayload: %t", got, err, tt.number, tt.failed)
			}
		})
	}
}
