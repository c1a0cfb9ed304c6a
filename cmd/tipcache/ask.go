package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds what is read of an admin listener's answer, in bytes.
const maxAnswer = 1 << 20

// askAdmin reads from an admin listener, with a token unless that is "". The error of
// an answer that is not 200 begins with refused, or with the status where that is "".
func askAdmin(ctx context.Context, client *http.Client, target, token, refused string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", cmp.Or(refused, "the admin listener says "+resp.Status), strings.TrimSpace(string(text)))
	}
	return text, err
}
