package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxDetect bounds the search for a dialect at one node.
const maxDetect = 3 * time.Second

// Detect finds out which dialect the nodes speak: the first that answers decides.
func Detect(ctx context.Context, endpoints []Endpoint) (Dialect, error) {
	err := errors.New("no endpoint of a chain node")
	for _, e := range endpoints {
		var found Dialect
		if found, err = detect(ctx, e); err == nil {
			return found, nil
		}
	}
	return "", err
}

// detect asks a node for what each dialect's probe reads. In the wrong dialect that is no answer of a node.
func detect(ctx context.Context, e Endpoint) (Dialect, error) {
	base, err := parseBase(e.REST)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, maxDetect)
	defer cancel()
	o := Options{}.WithDefaults()
	for _, d := range []Dialect{Cosmos, Story} {
		s, err := d.protocol()
		if err != nil {
			return "", err
		}
		c := newClient(base, o, s)
		a, err := c.get(ctx, Request{Path: s.probe}, 0)
		c.http.CloseIdleConnections()
		switch {
		case err == nil && a.NodeStatus != http.StatusNotFound:
			return d, nil
		case err != nil && refuses(err):
			return "", err
		}
	}
	return "", fmt.Errorf("%s answers in no dialect that is known", base.Host)
}
